"""JSON for scripts. The keys up to "notes" are fixed by schema version 1; newer ones stand after them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from effsparse_cli.report.escape import json_text

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts, LayerResult
    from effsparse_cli.report.page import Page

SCHEMA_VERSION = 1


def render(page: Page) -> str:
    analysis = page.analysis
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "input_shapes": {name: list(shape) for name, shape in analysis.input_shapes.items()},
        "totals": _totals(analysis),
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
    return json_text(document)


def _totals(analysis: Analysis) -> dict[str, Any]:
    totals = analysis.totals
    return {
        **_counts(totals),
        "direct_compression": _finite(totals.direct_compression),
        "effective_compression": _finite(totals.effective_compression),
        "disconnected": analysis.disconnected,
    }


def _layer(layer: LayerResult) -> dict[str, Any]:
    c = layer.counts
    return {
        "name": layer.name,
        "op": layer.op,
        "shape": list(layer.shape),
        **_counts(c),
        "inactive": {"no_input": c.no_input, "no_output": c.no_output, "both": c.both, "padding": c.padding},
        "bias_carriers": c.bias_carriers,
    }


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "connections": counts.connections,
        "kept": counts.kept,
        "active": counts.active,
        "direct_sparsity": counts.direct_sparsity,
        "effective_sparsity": counts.effective_sparsity,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
