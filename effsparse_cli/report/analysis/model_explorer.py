"""Node data for Google's Model Explorer: one number per node that uses weights, shown as a colour on its graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from effsparse_cli.analysis.results import Counts
from effsparse_cli.errors import UsageError
from effsparse_cli.report.document import json_text

if TYPE_CHECKING:
    from effsparse_cli.report.analysis.page import AnalysisPage

DEFAULT = "effective"
VALUES = {
    "weights": "connections",
    "kept": "kept",
    "direct": "direct_sparsity",
    "active": "active",
    "effective": "effective_sparsity",
    "inactive": "inactive",
    "no-input": "no_input",
    "no-output": "no_output",
    "both": "both",
    "padding": "padding",
    "bias-carriers": "bias_carriers",
}
"""Columns that can be shown, with their names in Counts."""
RATIOS = ("direct", "effective")
"""Columns whose sum over several nodes means nothing."""
LOW, HIGH = "#ffffff", "#d55e00"


def render(page: AnalysisPage) -> str:
    """Return the values by graph and node. Of several layers at one node, the connections are added."""
    (column, *more) = page.columns or (DEFAULT,)
    if more or column not in VALUES:
        raise UsageError(f"--format model-explorer shows one number: use --columns with one of {', '.join(VALUES)}.")
    graphs: dict[str, dict[str, Any]] = {}
    for graph, node, counts in _nodes(page):
        graphs.setdefault(graph, {})[node] = {"value": getattr(counts, VALUES[column])}
    hidden = {"hideAggregatedStats": ["sum"], "hideInChildrenStatsTable": True} if column in RATIOS else {}
    return json_text({graph: {"results": found, **_colours(found), **hidden} for graph, found in graphs.items()})


def _nodes(page: AnalysisPage) -> Iterator[tuple[str, str, Counts]]:
    analysis = page.analysis
    if analysis.viewer_nodes is None:
        raise UsageError(
            f"{page.model}: Model Explorer shows ONNX models and programs saved with torch.export.save (.pt2): export "
            "the model, or use another --format."
        )
    if not {layer.name for layer in page.layers} <= {layer.name for layer in analysis.layers}:
        raise UsageError("--format model-explorer shows single layers: remove --depth.")
    counts = {layer.name: layer.counts for layer in (*page.layers, *(analysis.apart if page.whole else ()))}
    for (graph, node), layers in analysis.viewer_nodes.items():
        if shown := [counts[name] for name in layers if name in counts]:
            yield graph, node, sum(shown, Counts())


def _colours(results: dict[str, Any]) -> dict[str, Any]:
    """Return a gradient from the lowest to the highest value. It would not colour values that are all equal."""
    values = [result["value"] for result in results.values()]
    if min(values) == max(values):
        return {"thresholds": [{"value": max(values), "bgColor": HIGH if values[0] else LOW}]}
    return {"gradient": [{"stop": 0, "bgColor": LOW}, {"stop": 1, "bgColor": HIGH}]}
