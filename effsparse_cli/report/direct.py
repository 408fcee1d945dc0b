"""The result of `effsparse report --direct-only`: kept weights per tensor of a file without a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from effsparse_cli.errors import UsageError
from effsparse_cli.formatting import compressions, dims, percents, plural, thousands
from effsparse_cli.graph.layer_names import select_names
from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import csv_cell, escaping
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result, render_markdown, render_table
from effsparse_cli.report.tables import Table, csv_text

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph

SCHEMA_VERSION = 1
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


ORDERS: dict[str, Callable[[Row], float | str] | None] = {
    "order": None,
    "direct": lambda row: row.kept / max(row.weights, 1),
    "weights": lambda row: -row.weights,
    "name": lambda row: row.name,
}


def build_page(
    model: str, graph: Graph, patterns: Sequence[str] = (), order: str = "order", look: Look | None = None
) -> DirectReport:
    """Count the weights of each tensor, select tensors by name patterns, and sort them."""
    if order not in ORDERS:
        raise UsageError(f"--sort {order} needs paths. With --direct-only, use {', '.join(ORDERS)}.")
    selected = select_names(list(graph.layers), patterns, "--layers")
    rows = []
    for layer in graph.layers.values():
        kept = layer.kept()
        rows.append(Row(layer.name, layer.shape, kept.size, int(kept.sum())))
    total = Row("total", (), sum(row.weights for row in rows), sum(row.kept for row in rows))
    shown, key = [row for row in rows if row.name in selected], ORDERS[order]
    ordered = sorted(shown, key=key) if key else shown
    return DirectReport(model, tuple(ordered), total, (*UNKNOWN, *graph.notes), look or find_look())


def render_json(report: DirectReport) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": report.model,
        "direct_only": True,
        "totals": report.total.numbers,
        "tensors": [{"name": row.name, "shape": list(row.shape), **row.numbers} for row in report.rows],
        "notes": list(report.notes),
    }
    return json_text(document)


@escaping(csv_cell)
def render_csv(report: DirectReport) -> str:
    every = (*report.rows, report.total)
    rows = [[row.name, dims(row.shape) if row.shape else "", *row.numbers.values()] for row in every]
    return csv_text([["name", "shape", *report.total.numbers], *rows])


@dataclass(frozen=True, repr=False)
class DirectReport(Result):
    """`rows` is a selection of the file's tensors; `total` always counts all of them."""

    model: str
    rows: tuple[Row, ...]
    total: Row
    notes: tuple[str, ...]
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = {
        "table": render_table,
        "json": render_json,
        "csv": render_csv,
        "markdown": render_markdown,
    }
    RECORDS: ClassVar[str] = "tensors"

    def table(self) -> Table:
        (ratio,) = compressions([self.total.kept], self.total.weights, "infinite") if self.total.weights else ("-",)
        whole = sum(row.weights for row in self.rows) == self.total.weights
        return Table(
            title=f"{self.model}: direct sparsity of {plural(len(self.rows), 'tensor')}, without a graph ({ratio})",
            titles=["tensor", "shape", "weights", "kept", "direct"],
            rows=[[row.name, dims(row.shape), *row.cells] for row in self.rows],
            total=["total" if whole else "whole file", "", *self.total.cells],
            notes=self.notes,
        )
