"""The page that `effsparse report` renders: an analysis, the model's name, and the layers to show in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from effsparse_cli.analysis.groups import group_layers
from effsparse_cli.arguments import choose
from effsparse_cli.errors import UsageError
from effsparse_cli.graph.layer_names import select_names
from effsparse_cli.report.look import Look

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, LayerResult
    from effsparse_cli.report.curves import Curves


@dataclass(frozen=True)
class AnalysisPage:
    """`layers` is a selection of the analysis's layers, possibly grouped by module; totals are always those of the
    whole model, and `whole` says that no layer was left out. `columns` are chosen by name; without a choice, each
    format has its own. `curve`, if there is one, is what further pruning would do."""

    model: str
    analysis: Analysis
    layers: tuple[LayerResult, ...]
    look: Look = field(default_factory=Look)
    whole: bool = True
    columns: tuple[str, ...] = ()
    curve: Curves | None = None


COSTS = ("multiply-adds", "bytes", "active-bytes")
"""Columns that are computed only on request."""
COLUMNS = (
    "op",
    "shape",
    "weights",
    "kept",
    "direct",
    "active",
    "effective",
    "inactive",
    "no-input",
    "no-output",
    "both",
    "padding",
    "bias-carriers",
    "dead-neurons",
    "pattern",
    *COSTS,
)
"""Columns that can be chosen, by the names of `--columns`. The layer comes first in any case."""

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
    model: str,
    analysis: Analysis,
    patterns: Sequence[str] = (),
    order: str = "order",
    look: Look | None = None,
    *,
    depth: int | None = None,
    columns: Sequence[str] = (),
    curve: Curves | None = None,
) -> AnalysisPage:
    """Select layers by name patterns, group them by `depth` components of their names, and sort them, largest number
    first. Ties keep the model's order."""
    selected = select_names([layer.name for layer in analysis.layers], patterns, "--layers")
    layers = [layer for layer in analysis.layers if layer.name in selected]
    whole, key = len(layers) == len(analysis.layers), ORDERS[order]
    if depth is not None:
        if depth < 1:
            raise UsageError(f"--depth {depth}: use 1 or more.")
        layers = group_layers(layers, depth)
    return AnalysisPage(
        model,
        analysis,
        tuple(sorted(layers, key=key) if key else layers),
        look or Look(),
        whole,
        tuple(choose(column, COLUMNS, "--columns") for column in columns),
        curve,
    )
