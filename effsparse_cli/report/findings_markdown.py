"""Verdicts as Markdown for pull requests and step summaries: a table of models, then what is wrong with each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.findings_text import sparsities, summary

if TYPE_CHECKING:
    from effsparse_cli.report.verdicts import Verdict, Verdicts

STATES = {"holds": "holds", "fails": "**fails**", "unmeasured": "**not checked**"}


def render(verdicts: Verdicts) -> str:
    lines = ["| model | direct | effective | result |", "| --- | ---: | ---: | --- |"]
    for verdict in verdicts.models:
        direct, effective = sparsities(verdict)
        lines.append(f"| {_code(verdict.model)} | {direct} | {effective} | {_result(verdict)} |")
    said = [line for verdict in verdicts.models for line in _said(verdict, verdicts)]
    parts = [f"**effsparse**: {_escape(summary(verdicts))}", "\n".join(lines), *(["\n".join(said)] if said else [])]
    return "\n\n".join(parts) + "\n"


def _result(verdict: Verdict) -> str:
    codes = dict.fromkeys(finding.code for finding in verdict.findings)
    return f"{STATES[verdict.state]} {', '.join(codes)}".strip()


def _said(verdict: Verdict, verdicts: Verdicts) -> list[str]:
    if verdict.problem:
        return [f"- {_code(verdict.model)}: {_escape(' '.join(verdict.problem.split()))}"]
    return [
        f"- {_code(verdict.model)}: {finding.code} {verdicts.rules[finding.code].name}"
        f"{' (warning)' if finding.level == 'warning' else ''}: {_escape(finding.text)}"
        for finding in verdict.findings
    ]


def _code(text: str) -> str:
    # Inside a table GitHub splits at a bar even in code, unless it is escaped.
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", "\\|").replace("\n", " ")


def _escape(text: str) -> str:
    for special in "\\`*_<|":
        text = text.replace(special, "\\" + special)
    return text
