"""GitLab's code quality report, which merge requests show: one entry per finding."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import printable

if TYPE_CHECKING:
    from effsparse_cli.checks.verdicts import Verdict, Verdicts

SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}
UNREADABLE = "not-checked"


def render(verdicts: Verdicts) -> str:
    places: Counter[str] = Counter()
    entries = [entry for verdict in verdicts.models for entry in _entries(verdict, verdicts)]
    for entry in entries:
        # Fingerprints are unique, and the same in the next run whatever the numbers: merge requests show what is new.
        place = "\0".join((entry["location"]["path"], entry["check_name"], entry.pop("layer")))
        places[place] += 1
        text = f"{place}\0{places[place]}".encode("utf-8", "backslashreplace")
        entry["fingerprint"] = hashlib.sha256(text).hexdigest()
    return json_text(entries)


def _entries(verdict: Verdict, verdicts: Verdicts) -> list[dict[str, Any]]:
    if verdict.problem:
        return [_entry(verdict.model, UNREADABLE, "critical", verdict.problem)]
    return [
        _entry(verdict.model, f"{f.code} {verdicts.rules[f.code].name}", SEVERITIES[f.level], f.text, f.layer)
        for f in verdict.findings
    ]


def _entry(model: str, rule: str, severity: str, text: str, layer: str = "") -> dict[str, Any]:
    return {
        "description": printable(" ".join(text.split())),
        "check_name": rule,
        "severity": severity,
        # A model has no lines, but GitLab needs one.
        "location": {"path": PurePath(os.path.normpath(model)).as_posix(), "lines": {"begin": 1}},
        "layer": layer,
    }
