"""Parts that several JSON documents share."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts


def json_text(document: object) -> str:
    """Return JSON that keeps every name as it is, with non-printable characters as JSON escapes."""

    def visible(char: str) -> str:
        return char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1]

    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return "".join(map(visible, text)).replace("##[", r"#\u0023[") + "\n"


def counts_to_json(counts: Counts) -> dict[str, Any]:
    names = ("connections", "kept", "active", "direct_sparsity", "effective_sparsity")
    return {name: getattr(counts, name) for name in names}


def totals_to_json(analysis: Analysis, **more: float | None) -> dict[str, Any]:
    """Return the counts of a whole model, `more`, and whether it is disconnected."""
    return {**counts_to_json(analysis.totals), **more, "disconnected": analysis.disconnected}


def finite_or_none(number: float) -> float | None:
    return number if math.isfinite(number) else None
