"""JSON for scripts. Schema version 1 fixes the keys up to "notes"; newer keys follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effsparse_cli.report.analysis.columns import cost_of
from effsparse_cli.report.analysis.page import COSTS
from effsparse_cli.report.document import counts_to_json, finite_or_none, json_text, totals_to_json

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import LayerResult
    from effsparse_cli.report.analysis.page import AnalysisPage

SCHEMA_VERSION = 1


def render(page: AnalysisPage) -> str:
    analysis, totals = page.analysis, page.analysis.totals
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "input_shapes": {name: list(shape) for name, shape in analysis.input_shapes.items()},
        "totals": totals_to_json(
            analysis,
            direct_compression=finite_or_none(totals.direct_compression),
            effective_compression=finite_or_none(totals.effective_compression),
        ),
        "layers": [_layer(layer) for layer in page.layers],
        "notes": list(analysis.notes),
        "engine": analysis.engine,
        "cut": analysis.cut,
        "narrowest": analysis.narrowest,
        "unknown_operators": list(analysis.unknown),
        "embeddings": [_layer(layer) for layer in analysis.apart],
        "neurons": {layer.name: {"all": layer.neurons, "dead": layer.dead_neurons} for layer in page.layers},
        "patterns": {layer.name: layer.pattern for layer in page.layers if layer.pattern},
    }
    if any(cost_of(name, layer) is not None for name in COSTS for layer in page.layers):
        keys = {name: name.replace("-", "_") for name in COSTS}
        document["costs"] = {x.name: {key: cost_of(name, x) for name, key in keys.items()} for x in page.layers}
    return json_text(document)


def _layer(layer: LayerResult) -> dict[str, Any]:
    c = layer.counts
    return {
        "name": layer.name,
        "op": layer.op,
        "shape": list(layer.shape),
        **counts_to_json(c),
        "inactive": {"no_input": c.no_input, "no_output": c.no_output, "both": c.both, "padding": c.padding},
        "bias_carriers": c.bias_carriers,
    }
