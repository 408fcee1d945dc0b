"""Verdicts as GitHub workflow commands: one annotation per finding, then the summary as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.findings_text import summary

if TYPE_CHECKING:
    from effsparse_cli.report.verdicts import Verdict, Verdicts


def render(verdicts: Verdicts) -> str:
    lines = [line for verdict in verdicts.models for line in _lines(verdict, verdicts)]
    return "\n".join([*lines, summary(verdicts)]) + "\n"


def _lines(verdict: Verdict, verdicts: Verdicts) -> list[str]:
    if verdict.problem:
        return [_command("error", verdict.model, "not checked", verdict.problem)]
    return [
        _command(finding.level, verdict.model, f"{finding.code} {verdicts.rules[finding.code].name}", finding.text)
        for finding in verdict.findings
    ]


def _command(level: str, file: str, title: str, message: str) -> str:
    return f"::{level} file={_property(file)},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
