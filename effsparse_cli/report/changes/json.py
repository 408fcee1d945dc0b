"""JSON for scripts: the request, counts before and after for each layer, and the details of the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effsparse_cli.report.document import counts_to_json, finite_or_none, json_text, totals_to_json

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis
    from effsparse_cli.report.changes.page import Change

SCHEMA_VERSION = 1


def render(change: Change) -> str:
    before = {layer.name: layer.counts for layer in change.before.layers}
    layers = [
        {
            "name": layer.name,
            "shape": list(layer.shape),
            "before": counts_to_json(before[layer.name]),
            "after": counts_to_json(layer.counts),
        }
        for layer in change.after.layers
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": change.model,
        "written": change.written,
        "asked": dict(change.request),
        "wanted": {"kept" if change.direct else "active": change.wanted},
        "reached": not change.out_of_reach and change.reached >= (change.wanted or 0),
        "cut": change.cut,
        "removed": change.removed,
        "before": _totals(change.before),
        "after": _totals(change.after),
        "layers": layers,
        "notes": [*change.notes, *change.after.notes],
        **change.details,
    }
    return json_text(document)


def _totals(analysis: Analysis) -> dict[str, Any]:
    return totals_to_json(analysis, effective_compression=finite_or_none(analysis.totals.effective_compression))
