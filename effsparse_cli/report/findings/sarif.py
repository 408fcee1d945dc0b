"""SARIF 2.1.0, which code scanning services read."""

from __future__ import annotations

import hashlib
import os
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import sarif

if TYPE_CHECKING:
    from effsparse_cli.checks.verdicts import About, Finding, Verdict, Verdicts

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(verdicts: Verdicts) -> str:
    codes = list(verdicts.rules)
    run = {
        "tool": {
            "driver": {
                "name": "effsparse",
                "version": verdicts.version,
                "rules": [_rule(about) for about in verdicts.rules.values()],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not any(verdict.problem for verdict in verdicts.models),
                "exitCode": verdicts.code,
                "toolExecutionNotifications": [_problem(verdict) for verdict in verdicts.models if verdict.problem],
            }
        ],
        "results": [
            _result(verdict, finding, codes.index(finding.code))
            for verdict in verdicts.models
            for finding in verdict.findings
        ],
        "columnKind": "unicodeCodePoints",
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json_text(document)


def _rule(about: About) -> dict[str, Any]:
    return {
        "id": about.code,
        "name": "".join(part.capitalize() for part in about.name.split("-")),
        "shortDescription": {"text": about.summary},
        "fullDescription": {"text": about.explanation},
        "help": {"text": about.explanation},
    }


def _result(verdict: Verdict, finding: Finding, index: int) -> dict[str, Any]:
    values = {"measured": finding.measured, "bound": finding.bound}
    numbers = {k: float(v) if isinstance(v, Fraction) else v for k, v in values.items() if v is not None}
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": sarif(finding.text)},
        "locations": [_location(verdict.model, finding.layer)],
        "partialFingerprints": {"ruleAndPlace/v1": _fingerprint(verdict.model, finding)},
        **({"properties": numbers} if numbers else {}),
    }


def _problem(verdict: Verdict) -> dict[str, Any]:
    return {"level": "error", "message": {"text": sarif(verdict.problem)}, "locations": [_location(verdict.model, "")]}


def _location(model: str, layer: str) -> dict[str, Any]:
    # A model has no lines, but GitHub shows only results with a line number.
    physical = {"artifactLocation": {"uri": _uri(model)}, "region": {"startLine": 1}}
    logical = {"logicalLocations": [{"name": layer, "kind": "module"}]} if layer else {}
    return {"physicalLocation": physical, **logical}


def _uri(model: str) -> str:
    path = PurePath(model)
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))


def _fingerprint(model: str, finding: Finding) -> str:
    """Identify a finding across runs, whatever its numbers: services match results by it."""
    place = "\0".join((PurePath(model).as_posix(), finding.code, finding.layer))
    return hashlib.sha256(place.encode("utf-8", "backslashreplace")).hexdigest()
