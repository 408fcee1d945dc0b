"""JSON for scripts: numbers at full precision, with the keys of schema version 1."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from effsparse_cli.report.document import json_text, totals_to_json

if TYPE_CHECKING:
    from effsparse_cli.checks.verdicts import Finding, Verdict, Verdicts

SCHEMA_VERSION = 1


def render(verdicts: Verdicts) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "version": verdicts.version,
        "exit_code": verdicts.code,
        "models": [_model(verdict) for verdict in verdicts.models],
        "rules": {code: {"name": about.name, "summary": about.summary} for code, about in verdicts.rules.items()},
    }
    return json_text(document)


def _model(verdict: Verdict) -> dict[str, Any]:
    return {
        "model": verdict.model,
        "state": verdict.state,
        "exit_code": verdict.code,
        "problem": verdict.problem or None,
        "totals": None if verdict.analysis is None else totals_to_json(verdict.analysis),
        "checked": list(verdict.checked),
        "findings": [_finding(finding) for finding in verdict.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "level": finding.level,
        "layer": finding.layer or None,
        "message": finding.message,
        "measured": _number(finding.measured),
        "bound": _number(finding.bound),
    }


def _number(value: Fraction | int | None) -> float | int | None:
    return float(value) if isinstance(value, Fraction) else value
