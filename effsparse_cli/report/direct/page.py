"""The page that `effsparse report --direct-only` renders: kept weights per tensor of a file without a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from effsparse_cli.errors import UsageError
from effsparse_cli.formatting import compressions, percents, plural, thousands
from effsparse_cli.report.look import Look
from effsparse_cli.report.names import select_names

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph

UNKNOWN = (
    "direct sparsity only: paths are unknown without the model's graph, so effective sparsity is at least this "
    "value; --arch provides the graph",
    "every floating-point tensor with two or more dimensions is counted; the file does not show whether the model uses "
    "it, or whether it is an embedding table",
)


@dataclass(frozen=True)
class Row:
    name: str
    shape: tuple[int, ...]
    weights: int
    kept: int

    @property
    def cells(self) -> list[str]:
        return [thousands(self.weights), thousands(self.kept), *percents([self.weights - self.kept], self.weights)]

    @property
    def numbers(self) -> dict[str, int | float]:
        sparsity = 1 - self.kept / self.weights if self.weights else 0.0
        return {"weights": self.weights, "kept": self.kept, "direct_sparsity": sparsity}


@dataclass(frozen=True)
class DirectPage:
    """`rows` is a selection of the file's tensors; `total` always counts all of them."""

    model: str
    rows: tuple[Row, ...]
    total: Row
    notes: tuple[str, ...]
    look: Look

    @property
    def title(self) -> str:
        (ratio,) = compressions([self.total.kept], self.total.weights, "infinite") if self.total.weights else ("-",)
        return f"{self.model}: direct sparsity of {plural(len(self.rows), 'tensor')}, without a graph ({ratio})"

    @property
    def total_name(self) -> str:
        return "total" if sum(row.weights for row in self.rows) == self.total.weights else "whole file"


ORDERS: dict[str, Callable[[Row], float | str] | None] = {
    "order": None,
    "direct": lambda row: row.kept / max(row.weights, 1),
    "weights": lambda row: -row.weights,
    "name": lambda row: row.name,
}


def build_page(
    model: str, graph: Graph, patterns: Sequence[str] = (), order: str = "order", look: Look | None = None
) -> DirectPage:
    """Count the weights of each tensor, select tensors by name patterns, and sort them."""
    if order not in ORDERS:
        raise UsageError(f"--sort {order} needs paths. With --direct-only, use {', '.join(ORDERS)}.")
    selected = select_names(list(graph.layers), patterns)
    rows = []
    for layer in graph.layers.values():
        kept = layer.kept()
        rows.append(Row(layer.name, layer.shape, kept.size, int(kept.sum())))
    total = Row("total", (), sum(row.weights for row in rows), sum(row.kept for row in rows))
    shown, key = [row for row in rows if row.name in selected], ORDERS[order]
    ordered = sorted(shown, key=key) if key else shown
    return DirectPage(model, tuple(ordered), total, (*UNKNOWN, *graph.notes), look or Look())
