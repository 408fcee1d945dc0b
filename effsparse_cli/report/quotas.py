"""The result of `effsparse quotas`: connections kept by each quota in each layer, as a table, JSON, CSV and a plot."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from effsparse_cli.formatting import compressions, percents, thousands
from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import csv_cell, escaped, escaping, printable
from effsparse_cli.report.figure import MARKERS, build_figure, build_panels, colour_of, save_figure, viridis
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result, render_table
from effsparse_cli.report.tables import Table, csv_text

SCHEMA_VERSION = 1
MAX_NAMES, MAX_LEGEND = 40, 12


def _cells(kept: Sequence[int], weights: int) -> list[str]:
    return [cell for number in kept for cell in (thousands(number), *percents([number], weights))]


def render_json(quotas: Quotas) -> str:
    layers = [
        {
            "name": name,
            "shape": list(shape),
            "connections": weights,
            "kept": {lsq: kept[i] for lsq, kept in quotas.kept.items()},
        }
        for i, (name, shape, weights) in enumerate(quotas.layers)
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": quotas.model,
        "target": quotas.target,
        "connections": quotas.connections,
        "layers": layers,
        "notes": list(quotas.notes),
    }
    return json_text(document)


@escaping(csv_cell)
def render_csv(quotas: Quotas) -> str:
    rows = [
        [name, weights, *(kept[i] for kept in quotas.kept.values())]
        for i, (name, _, weights) in enumerate(quotas.layers)
    ]
    return csv_text([["name", "connections", *quotas.kept], *rows])


def _plot_sweep(page: Quotas, path: Path) -> None:
    """Colour layers by their number of weights, from dark (few) to light (many)."""
    figure, panels = build_panels(len(page.sweep))
    sizes = [math.log(weights) for *_, weights in page.layers]
    shades = [(size - min(sizes)) / ((max(sizes) - min(sizes)) or 1) for size in sizes]
    for axes, (lsq, points) in zip(panels, page.sweep.items(), strict=True):
        for i, (name, _, weights) in enumerate(page.layers):
            drawn = [(ratio, weights / kept[i]) for ratio, kept in points if kept[i]]
            axes.plot(*zip(*drawn, strict=True), color=viridis(0.9 * shades[i]), linewidth=1.2, label=name)
        axes.set(xscale="log", yscale="log", xlabel="direct compression")
        axes.set_title(lsq, loc="left", fontsize="medium")
    panels[0].set_ylabel("compression of the layer")
    if len(page.layers) <= MAX_LEGEND:
        panels[-1].legend(frameon=False, fontsize="x-small")
    save_figure(figure, path)


@dataclass(frozen=True, kw_only=True, repr=False)
class Quotas(Result):
    """`layers` are names, shapes and numbers of weights; `kept` has one number per layer for each quota. `sweep` has
    the same at many compressions, if it was asked for: `plot` draws them."""

    model: str
    target: str
    layers: Sequence[tuple[str, tuple[int, ...], int]]
    kept: dict[str, tuple[int, ...]]
    sweep: Mapping[str, Sequence[tuple[float, tuple[int, ...]]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = {"table": render_table, "json": render_json, "csv": render_csv}

    @property
    def connections(self) -> int:
        return sum(weights for *_, weights in self.layers)

    def table(self) -> Table:
        sums = [sum(kept) for kept in self.kept.values()]
        (ratio,) = compressions(sums[:1], self.connections, "inf")
        return Table(
            title=f"{self.model}: kept connections per layer at a direct sparsity of {self.target} ({ratio})",
            titles=["layer", "weights", *(title for lsq in self.kept for title in (f"{lsq} kept", "density"))],
            rows=[
                [name, thousands(weights), *_cells([kept[i] for kept in self.kept.values()], weights)]
                for i, (name, _, weights) in enumerate(self.layers)
            ],
            total=["total", thousands(self.connections), *_cells(sums, self.connections)],
            notes=self.notes,
        )

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the compression of each layer, in order, on a log axis. A layer that keeps nothing has no point. With
        `sweep`, draw one panel per quota and one line per layer over the compression of the model, as in the paper."""
        page = escaped(self, printable)
        if page.sweep:
            _plot_sweep(page, Path(path))
            return
        figure, axes = build_figure()
        for i, (lsq, kept) in enumerate(page.kept.items()):
            ratios = [weights / n if n else float("nan") for (*_, weights), n in zip(page.layers, kept, strict=True)]
            marker = MARKERS[i % len(MARKERS)]
            axes.plot(ratios, color=colour_of(i), marker=marker, markersize=4, linewidth=1.5, label=lsq)
        names = [name for name, *_ in page.layers]
        step, turned = -(-len(names) // MAX_NAMES), len(names) > 6
        axes.set_xticks(range(0, len(names), step), names[::step], rotation=90 if turned else 0, fontsize="x-small")
        axes.set(yscale="log", ylabel="compression of the layer")
        axes.set_title(f"{Path(page.model).name} at a direct sparsity of {page.target}", loc="left", fontsize="medium")
        axes.legend(frameon=False, fontsize="small")
        save_figure(figure, Path(path))
