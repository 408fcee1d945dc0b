"""JSON for scripts: every pair of layers, whether it differs or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effsparse_cli.comparison.results import SHOWN
from effsparse_cli.report.document import counts_to_json, json_text, totals_to_json

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import LayerResult
    from effsparse_cli.comparison.results import Comparison, Moves

SCHEMA_VERSION = 1


def render(comparison: Comparison) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "before": comparison.before_name,
        "after": comparison.after_name,
        "differs": comparison.differs,
        "totals": {
            "before": totals_to_json(comparison.before),
            "after": totals_to_json(comparison.after),
            **_moves(comparison.moves),
        },
        "layers": [
            {
                "before": _layer(pair.before),
                "after": _layer(pair.after),
                "differs": pair.differs,
                **_moves(pair.moves),
            }
            for pair in comparison.pairs
        ],
        "only_before": [_layer(layer) for layer in comparison.only_before],
        "only_after": [_layer(layer) for layer in comparison.only_after],
    }
    return json_text(document)


def _layer(layer: LayerResult) -> dict[str, Any]:
    return {"name": layer.name, "op": layer.op, "shape": list(layer.shape), **counts_to_json(layer.counts)}


def _moves(moves: Moves | None) -> dict[str, int | None]:
    return {name: None if moves is None else getattr(moves, name) for name in SHOWN}
