"""Verdicts as Markdown for pull requests and step summaries: a table of models, then what is wrong with each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.escape import markdown, markdown_code
from effsparse_cli.report.findings_text import sparsities, summary

if TYPE_CHECKING:
    from effsparse_cli.checks.verdicts import Verdict, Verdicts

STATES = {"holds": "holds", "fails": "**fails**", "unmeasured": "**not checked**"}


def render(verdicts: Verdicts) -> str:
    lines = ["| model | direct | effective | result |", "| --- | ---: | ---: | --- |"]
    for verdict in verdicts.models:
        direct, effective = sparsities(verdict)
        lines.append(f"| {markdown_code(verdict.model)} | {direct} | {effective} | {_result(verdict)} |")
    said = [line for verdict in verdicts.models for line in _said(verdict, verdicts)]
    parts = [f"**effsparse**: {markdown(summary(verdicts))}", "\n".join(lines), *(["\n".join(said)] if said else [])]
    return "\n\n".join(parts) + "\n"


def _result(verdict: Verdict) -> str:
    codes = dict.fromkeys(finding.code for finding in verdict.findings if finding.level != "note")
    return f"{STATES[verdict.state]} {', '.join(codes)}".strip()


def _said(verdict: Verdict, verdicts: Verdicts) -> list[str]:
    if verdict.problem:
        return [f"- {markdown_code(verdict.model)}: {markdown(' '.join(verdict.problem.split()))}"]
    return [
        f"- {markdown_code(verdict.model)}: {finding.code} {verdicts.rules[finding.code].name}"
        f"{'' if finding.level == 'error' else f' ({finding.level})'}: {markdown(finding.text)}"
        for finding in verdict.findings
    ]
