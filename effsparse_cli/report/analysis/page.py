"""The page that `effsparse report` renders: an analysis, the model's name, and the layers to show in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from effsparse_cli.graph.layer_names import select_names
from effsparse_cli.report.look import Look

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, LayerResult


@dataclass(frozen=True)
class AnalysisPage:
    """`layers` is a selection of the analysis's layers; totals are always those of the whole model."""

    model: str
    analysis: Analysis
    layers: tuple[LayerResult, ...]
    look: Look = field(default_factory=Look)


ORDERS: dict[str, Callable[[LayerResult], float | str] | None] = {
    "order": None,
    "direct": lambda layer: -layer.counts.direct_sparsity,
    "effective": lambda layer: -layer.counts.effective_sparsity,
    "gap": lambda layer: -layer.counts.inactive / max(layer.counts.connections, 1),
    "inactive": lambda layer: -layer.counts.inactive,
    "weights": lambda layer: -layer.counts.connections,
    "name": lambda layer: layer.name,
}


def build_page(
    model: str, analysis: Analysis, patterns: Sequence[str] = (), order: str = "order", look: Look | None = None
) -> AnalysisPage:
    """Select layers by name patterns and sort them, largest number first. Ties keep the model's order."""
    selected = select_names([layer.name for layer in analysis.layers], patterns, "--layers")
    layers = [layer for layer in analysis.layers if layer.name in selected]
    key = ORDERS[order]
    return AnalysisPage(model, analysis, tuple(sorted(layers, key=key) if key else layers), look or Look())
