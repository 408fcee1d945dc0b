"""Verdicts as JSON for scripts: numbers at full precision, the keys fixed by schema version 1."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from effsparse_cli.report.escape import json_text

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
        "totals": _totals(verdict),
        "checked": list(verdict.checked),
        "findings": [_finding(finding) for finding in verdict.findings],
    }


def _totals(verdict: Verdict) -> dict[str, Any] | None:
    if verdict.analysis is None:
        return None
    totals = verdict.analysis.totals
    return {
        "connections": totals.connections,
        "kept": totals.kept,
        "active": totals.active,
        "direct_sparsity": totals.direct_sparsity,
        "effective_sparsity": totals.effective_sparsity,
        "disconnected": verdict.analysis.disconnected,
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
