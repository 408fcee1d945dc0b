"""Effective against direct compression, as a table, JSON or CSV: one line per direct compression, seeds together."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from effsparse_cli.formatting import compressions, thousands
from effsparse_cli.report.escape import csv_cell, escaping, json_text, plain
from effsparse_cli.report.grid import grid
from effsparse_cli.report.page import Look

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Place:
    """One direct compression: the kept connections, and the active ones of each seed."""

    kept: int
    active: tuple[int, ...]

    @property
    def mean(self) -> float:
        return sum(self.active) / len(self.active)


@dataclass(frozen=True)
class Line:
    """One method and quota. `last` are kept and active of the sparsest connected network, by seed."""

    name: str
    seeds: tuple[int, ...]
    places: tuple[Place, ...]
    last: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CurvePage:
    model: str
    connections: int
    lines: Sequence[Line]
    look: Look = field(default_factory=Look)


@escaping(plain)
def render_table(page: CurvePage) -> str:
    infinite = "∞" if page.look.unicode else "inf"
    shown = [place for line in page.lines for place in _until_cut(line)]
    kept = sorted({place.kept for place in shown}, reverse=True)
    direct = dict(zip(kept, compressions(kept, page.connections, infinite), strict=True))
    titles = ["direct", "kept", *(f"{line.name} {what}" for line in page.lines for what in ("active", "effective"))]
    rows = []
    for number in kept:
        cells = [direct[number], thousands(number)]
        for line in page.lines:
            place = next((p for p in line.places if p.kept == number), None)
            cells += ["", ""] if place is None else _cells(place, page.connections, infinite)
        rows.append(cells)
    ends = [_ending(page, line) for line in page.lines]
    return "\n".join(
        [f"{page.model}: effective against direct compression", "", *grid(titles, rows, None, page.look), *ends, ""]
    )


def _until_cut(line: Line) -> Sequence[Place]:
    """Up to the first place where no seed has anything active."""
    cut = next((i for i, place in enumerate(line.places) if not any(place.active)), len(line.places))
    return line.places[: cut + 1]


def _cells(place: Place, connections: int, infinite: str) -> list[str]:
    """The mean over seeds, and the range where they differ."""
    low, high = min(place.active), max(place.active)
    mean = f"{place.mean:,.1f}" if len(set(place.active)) > 1 else thousands(low)
    if low == high:
        return [mean, compressions([low], connections, infinite)[0]]
    # The mean as a whole number of connections over all seeds, so that its compression is exact too.
    seeds = len(place.active)
    (ratio,) = compressions([sum(place.active)], connections * seeds, infinite)
    best, worst = compressions([high, low], connections, infinite)
    return [mean, f"{ratio} ({best} to {worst})"]


def _ending(page: CurvePage, line: Line) -> str:
    kept = [k for k, _ in line.last]
    most, least = compressions([min(kept), max(kept)], page.connections, "inf")
    where = most if min(kept) == max(kept) else f"{least} to {most}"
    return f"{line.name}: disconnected past a direct compression of {where}"


def render_json(page: CurvePage) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "connections": page.connections,
        "curves": [
            {
                "name": line.name,
                "seeds": list(line.seeds),
                "points": [{"kept": place.kept, "active": list(place.active)} for place in line.places],
                "last_connected": [{"kept": kept, "active": active} for kept, active in line.last],
            }
            for line in page.lines
        ],
    }
    return json_text(document)


@escaping(csv_cell)
def render_csv(page: CurvePage) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["curve", "seed", "kept", "active", "direct_compression", "effective_compression"])
    for line in page.lines:
        for place in line.places:
            for seed, active in zip(line.seeds, place.active, strict=True):
                ratios = [page.connections / n if n else math.inf for n in (place.kept, active)]
                rows.writerow([line.name, seed, place.kept, active, *(r if math.isfinite(r) else "" for r in ratios)])
    return text.getvalue()


FORMATS: dict[str, Callable[[CurvePage], str]] = {"table": render_table, "json": render_json, "csv": render_csv}
