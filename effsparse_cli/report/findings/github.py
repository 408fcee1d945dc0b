"""GitHub workflow commands: one annotation per finding, then the summary as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.escape import github_data, github_property
from effsparse_cli.report.findings.text import summary

if TYPE_CHECKING:
    from effsparse_cli.checks.verdicts import Verdict, Verdicts

LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def render(verdicts: Verdicts) -> str:
    lines = [line for verdict in verdicts.models for line in _lines(verdict, verdicts)]
    return "\n".join([*lines, summary(verdicts)]) + "\n"


def _lines(verdict: Verdict, verdicts: Verdicts) -> list[str]:
    if verdict.problem:
        return [_command("error", verdict.model, "not checked", verdict.problem)]
    return [
        _command(
            LEVELS[finding.level], verdict.model, f"{finding.code} {verdicts.rules[finding.code].name}", finding.text
        )
        for finding in verdict.findings
    ]


def _command(level: str, file: str, title: str, message: str) -> str:
    return f"::{level} file={github_property(file)},title={github_property(title)}::{github_data(message)}"
