"""Formats of `effsparse quotas`: connections kept by each quota in each layer, as a table, JSON, CSV and a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from effsparse_cli.formatting import compressions, percents, thousands
from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import csv_cell, escaped, escaping, printable
from effsparse_cli.report.figure import MARKERS, build_figure, save_figure
from effsparse_cli.report.look import Look, bullets
from effsparse_cli.report.tables import align_table, csv_text


@dataclass(frozen=True, kw_only=True)
class QuotaPage:
    """`layers` are names, shapes and numbers of weights; `kept` has one number per layer for each quota."""

    model: str
    target: str
    layers: Sequence[tuple[str, tuple[int, ...], int]]
    kept: dict[str, tuple[int, ...]]
    notes: tuple[str, ...] = ()
    look: Look = field(default_factory=Look)

    @property
    def connections(self) -> int:
        return sum(weights for *_, weights in self.layers)


@escaping(printable)
def render_table(page: QuotaPage) -> str:
    titles = ["layer", "weights", *(title for lsq in page.kept for title in (f"{lsq} kept", "density"))]
    rows = []
    for i, (name, _, weights) in enumerate(page.layers):
        rows.append([name, thousands(weights), *_cells([kept[i] for kept in page.kept.values()], weights)])
    sums = [sum(kept) for kept in page.kept.values()]
    total = ["total", thousands(page.connections), *_cells(sums, page.connections)]
    (ratio,) = compressions(sums[:1], page.connections, "inf")
    title = f"{page.model}: kept connections per layer at a direct sparsity of {page.target} ({ratio})"
    lines = align_table(titles, rows, total, page.look)
    return "\n".join([title, "", *lines, *bullets(page.notes, page.look.width), ""])


def _cells(kept: Sequence[int], weights: int) -> list[str]:
    return [cell for number in kept for cell in (thousands(number), *percents([number], weights))]


SCHEMA_VERSION = 1


def render_json(page: QuotaPage) -> str:
    layers = [
        {
            "name": name,
            "shape": list(shape),
            "connections": weights,
            "kept": {lsq: kept[i] for lsq, kept in page.kept.items()},
        }
        for i, (name, shape, weights) in enumerate(page.layers)
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "target": page.target,
        "connections": page.connections,
        "layers": layers,
        "notes": list(page.notes),
    }
    return json_text(document)


@escaping(csv_cell)
def render_csv(page: QuotaPage) -> str:
    rows = [
        [name, weights, *(kept[i] for kept in page.kept.values())] for i, (name, _, weights) in enumerate(page.layers)
    ]
    return csv_text([["name", "connections", *page.kept], *rows])


MAX_NAMES = 40


def plot_quotas(page: QuotaPage, path: Path) -> None:
    """Draw one point per layer, in order, on a log axis. A layer that keeps nothing has no point."""
    page = escaped(page, printable)
    figure, axes = build_figure()
    for i, (lsq, kept) in enumerate(page.kept.items()):
        ratios = [weights / n if n else float("nan") for (*_, weights), n in zip(page.layers, kept, strict=True)]
        axes.plot(ratios, color=f"C{i}", marker=MARKERS[i % len(MARKERS)], markersize=4, linewidth=1.5, label=lsq)
    names = [name for name, *_ in page.layers]
    step = -(-len(names) // MAX_NAMES)
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=90 if len(names) > 6 else 0, fontsize="x-small")
    axes.set(yscale="log", ylabel="compression of the layer")
    axes.set_title(f"{Path(page.model).name} at a direct sparsity of {page.target}", loc="left", fontsize="medium")
    axes.legend(frameon=False, fontsize="small")
    save_figure(figure, path)


FORMATS: dict[str, Callable[[QuotaPage], str]] = {"table": render_table, "json": render_json, "csv": render_csv}
