"""Markdown for pull requests and step summaries: a table of models, then the findings of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.escape import markdown, markdown_code
from effsparse_cli.report.findings.text import sparsities, summary, title
from effsparse_cli.report.tables import markdown_row

if TYPE_CHECKING:
    from effsparse_cli.checks.verdicts import Verdict, Verdicts

STATES = {"holds": "passes", "fails": "**fails**", "unmeasured": "**not checked**"}


def render(verdicts: Verdicts) -> str:
    rows = ["| model | direct | effective | result |", "| --- | ---: | ---: | --- |"]
    for verdict in verdicts.models:
        direct, effective = sparsities(verdict)
        rows.append(markdown_row([markdown_code(verdict.model), direct, effective, result_text(verdict)]))
    items = [item for verdict in verdicts.models for item in _items(verdict, verdicts)]
    parts = [f"**effsparse**: {markdown(summary(verdicts))}", "\n".join(rows), *(["\n".join(items)] if items else [])]
    return "\n\n".join(parts) + "\n"


def result_text(verdict: Verdict) -> str:
    codes = dict.fromkeys(finding.code for finding in verdict.findings if finding.level != "note")
    return f"{STATES[verdict.state]} {', '.join(codes)}".strip()


def _items(verdict: Verdict, verdicts: Verdicts) -> list[str]:
    if verdict.problem:
        return [f"- {markdown_code(verdict.model)}: {markdown(' '.join(verdict.problem.split()))}"]
    return [
        f"- {markdown_code(verdict.model)}: {title(finding, verdicts)}: {markdown(finding.text)}"
        for finding in verdict.findings
    ]
