"""The direct sparsity of a file's tensors, where there is no graph: a table, JSON, CSV or Markdown, each saying what
cannot be known so."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from effsparse_cli.errors import UsageError
from effsparse_cli.formatting import compressions, dims, percents, plural, thousands
from effsparse_cli.report.escape import csv_cell, escaping, json_text, markdown, markdown_code, plain
from effsparse_cli.report.grid import grid
from effsparse_cli.report.page import Look, matching

if TYPE_CHECKING:
    from effsparse_cli.graph.graph import Graph

SCHEMA_VERSION = 1
UNKNOWN = (
    "direct sparsity alone: without the model's graph nothing is known of paths, so the effective sparsity may be "
    "anything from this upward; --arch gives the graph",
    "counted is every floating tensor of two or more axes; whether the model uses it, and which ones are embedding "
    "tables, cannot be told from the file",
)


@dataclass(frozen=True)
class Row:
    name: str
    shape: tuple[int, ...]
    weights: int
    kept: int


@dataclass(frozen=True)
class DirectPage:
    """`rows` may be fewer than the file has tensors; `total` is always all of them."""

    model: str
    rows: tuple[Row, ...]
    total: Row
    notes: tuple[str, ...]
    look: Look


ORDERS: dict[str, Callable[[Row], float | str] | None] = {
    "order": None,
    "direct": lambda row: row.kept / max(row.weights, 1),
    "weights": lambda row: -row.weights,
    "name": lambda row: row.name,
}


def compose(
    model: str, graph: Graph, patterns: Sequence[str] = (), order: str = "order", look: Look | None = None
) -> DirectPage:
    if order not in ORDERS:
        raise UsageError(f"--sort {order} needs paths. With --direct-only there are {', '.join(ORDERS)}.")
    shown = matching(list(graph.layers), patterns)
    rows = []
    for layer in graph.layers.values():
        kept = layer.kept()
        rows.append(Row(layer.name, layer.shape, kept.size, int(kept.sum())))
    total = Row("total", (), sum(row.weights for row in rows), sum(row.kept for row in rows))
    chosen, key = [row for row in rows if row.name in shown], ORDERS[order]
    ordered = sorted(chosen, key=key) if key else chosen
    return DirectPage(model, tuple(ordered), total, (*UNKNOWN, *graph.notes), look or Look())


@escaping(plain)
def render_table(page: DirectPage) -> str:
    rows = [[row.name, dims(row.shape), *_counts(row)] for row in page.rows]
    total = [_total_name(page), "", *_counts(page.total)]
    notes = [
        line
        for note in page.notes
        for line in textwrap.wrap(f"- {note}", page.look.width, subsequent_indent="  ", break_on_hyphens=False)
    ]
    lines = [_headline(page), "", *grid(["tensor", "shape", "weights", "kept", "direct"], rows, total, page.look), ""]
    return "\n".join([*lines, *notes, ""])


def render_json(page: DirectPage) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "direct_only": True,
        "totals": _numbers(page.total),
        "tensors": [{"name": row.name, "shape": list(row.shape), **_numbers(row)} for row in page.rows],
        "notes": list(page.notes),
    }
    return json_text(document)


@escaping(csv_cell)
def render_csv(page: DirectPage) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["name", "shape", *_numbers(page.total)])
    for row in (*page.rows, page.total):
        rows.writerow([row.name, dims(row.shape) if row.shape else "", *_numbers(row).values()])
    return text.getvalue()


def render_markdown(page: DirectPage) -> str:
    lines = ["| tensor | shape | weights | kept | direct |", "| --- | --- | ---: | ---: | ---: |"]
    for row in page.rows:
        lines.append(f"| {' | '.join([markdown_code(row.name), dims(row.shape), *_counts(row)])} |")
    bold = [f"**{cell}**" for cell in (_total_name(page), *_counts(page.total))]
    lines.append(f"| {' | '.join([bold[0], '', *bold[1:]])} |")
    notes = "\n".join(f"- {markdown(note)}" for note in page.notes)
    return f"**{markdown(_headline(page))}**\n\n" + "\n".join(lines) + f"\n\n{notes}\n"


def _headline(page: DirectPage) -> str:
    (ratio,) = compressions([page.total.kept], page.total.weights, "infinite") if page.total.weights else ("-",)
    return f"{page.model}: direct sparsity of {plural(len(page.rows), 'tensor')}, without a graph ({ratio})"


def _total_name(page: DirectPage) -> str:
    return "total" if sum(row.weights for row in page.rows) == page.total.weights else "whole file"


def _counts(row: Row) -> list[str]:
    return [thousands(row.weights), thousands(row.kept), *percents([row.weights - row.kept], row.weights)]


def _numbers(row: Row) -> dict[str, int | float]:
    sparsity = 1 - row.kept / row.weights if row.weights else 0.0
    return {"weights": row.weights, "kept": row.kept, "direct_sparsity": sparsity}


FORMATS: dict[str, Callable[[DirectPage], str]] = {
    "table": render_table,
    "json": render_json,
    "csv": render_csv,
    "markdown": render_markdown,
}
