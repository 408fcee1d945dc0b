"""The result of `effsparse curve`: one line per method and quota, with all seeds, as a table, JSON, CSV and a plot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from effsparse_cli.formatting import compressions, thousands
from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import csv_cell, escaped, escaping, printable
from effsparse_cli.report.figure import build_figure, colour_of, marker_of, save_figure
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result, build_frame, render_table
from effsparse_cli.report.tables import Table, csv_text

SCHEMA_VERSION = 1
TITLES = ("curve", "seed", "kept", "active", "direct_compression", "effective_compression")


@dataclass(frozen=True)
class Point:
    """The kept connections at one direct compression, and the active ones of each seed."""

    kept: int
    active: tuple[int, ...]

    @property
    def mean(self) -> float:
        return sum(self.active) / len(self.active)


@dataclass(frozen=True)
class Line:
    """One method and quota. `last` holds, for each seed, the kept and active connections of the sparsest network that
    is still connected."""

    name: str
    seeds: tuple[int, ...]
    points: tuple[Point, ...]
    last: tuple[tuple[int, int], ...]


def _until_cut(line: Line) -> Sequence[Point]:
    """Return the points up to the first at which no seed has active connections."""
    cut = next((i for i, point in enumerate(line.points) if not any(point.active)), len(line.points))
    return line.points[: cut + 1]


def _cells(point: Point, connections: int, infinite: str) -> list[str]:
    """Return the mean over seeds, and the range if they differ."""
    low, high = min(point.active), max(point.active)
    if low == high:
        return [thousands(low), compressions([low], connections, infinite)[0]]
    # Count the connections of all seeds together, so that the compression of the mean is exact too.
    (ratio,) = compressions([sum(point.active)], connections * len(point.active), infinite)
    best, worst = compressions([high, low], connections, infinite)
    return [f"{point.mean:,.1f}", f"{ratio} ({best} to {worst})"]


def _end(page: Curves, line: Line) -> str:
    kept = [k for k, _ in line.last]
    most, least = compressions([min(kept), max(kept)], page.connections, "inf")
    where = most if min(kept) == max(kept) else f"{least} to {most}"
    return f"{line.name}: disconnected beyond a direct compression of {where}"


def render_json(page: Curves) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "connections": page.connections,
        "curves": [
            {
                "name": line.name,
                "seeds": list(line.seeds),
                "points": [{"kept": point.kept, "active": list(point.active)} for point in line.points],
                "last_connected": [{"kept": kept, "active": active} for kept, active in line.last],
            }
            for line in page.lines
        ],
    }
    return json_text(document)


@escaping(csv_cell)
def render_csv(page: Curves) -> str:
    return csv_text([TITLES, *_rows(page)])


def _rows(page: Curves) -> list[list[object]]:
    rows: list[list[object]] = []
    for line in page.lines:
        for point in line.points:
            for seed, active in zip(line.seeds, point.active, strict=True):
                ratios = [page.connections / n if n else "" for n in (point.kept, active)]
                rows.append([line.name, seed, point.kept, active, *ratios])
    return rows


def _draw(axes: Any, line: Line, connections: int, number: int) -> None:
    colour, marker = colour_of(number), marker_of(number)
    connected = [point for point in line.points if min(point.active) > 0]
    direct = [connections / point.kept for point in connected]
    mean = [connections / point.mean for point in connected]
    axes.plot(direct, mean, color=colour, marker=marker, markersize=3.5, linewidth=1.5, label=line.name)
    if len(line.seeds) > 1:
        least = [connections / max(point.active) for point in connected]
        most = [connections / min(point.active) for point in connected]
        axes.fill_between(direct, least, most, color=colour, alpha=0.2, linewidth=0)
    for kept, active in line.last:
        end = connections / kept, connections / active
        if direct:
            axes.plot([direct[-1], end[0]], [mean[-1], end[1]], color=colour, linewidth=0.8, alpha=0.7)
        axes.plot(*([value] for value in end), "x", color=colour, markersize=7)


@dataclass(frozen=True, repr=False)
class Curves(Result):
    model: str
    connections: int
    lines: Sequence[Line]
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = {"table": render_table, "json": render_json, "csv": render_csv}
    RECORDS: ClassVar[str] = "curves"

    def table(self) -> Table:
        """Return one row per point, the lines one after another."""
        infinite = self.look.infinite
        rows = []
        for line in self.lines:
            points = _until_cut(line)
            direct = compressions([point.kept for point in points], self.connections, infinite)
            for point, ratio in zip(points, direct, strict=True):
                rows.append([line.name, ratio, thousands(point.kept), *_cells(point, self.connections, infinite)])
        return Table(
            title=f"{self.model}: effective against direct compression",
            titles=["curve", "direct", "kept", "active", "effective"],
            rows=rows,
            optional=((2,), (3,)),
            notes=[_end(self, line) for line in self.lines],
        )

    def to_frame(self) -> Any:
        """Return one row per point and seed as a pandas data frame."""
        return build_frame([dict(zip(TITLES, row, strict=True)) for row in _rows(self)])

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw each line on log axes: the mean over seeds with a band from minimum to maximum, up to a cross at the
        last connected network of each seed. On the diagonal, every kept connection is active."""
        page = escaped(self, printable)
        figure, axes = build_figure()
        furthest = max([page.connections / kept for line in page.lines for kept, _ in line.last])
        axes.plot([1, furthest], [1, furthest], color="0.6", linewidth=1, linestyle="--", label="all kept are active")
        for i, line in enumerate(page.lines):
            _draw(axes, line, page.connections, i)
        axes.plot([], [], "x", color="0.3", label="last connected network")
        axes.set(xscale="log", yscale="log", xlabel="direct compression", ylabel="effective compression")
        axes.set_title(Path(page.model).name, loc="left", fontsize="medium")
        axes.legend(frameon=False, fontsize="small")
        save_figure(figure, Path(path))
