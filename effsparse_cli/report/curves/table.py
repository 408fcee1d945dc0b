"""The table for terminals: one row per direct compression, with the mean and range over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from effsparse_cli.formatting import compressions, thousands
from effsparse_cli.report.escape import escaping, printable
from effsparse_cli.report.tables import align_table

if TYPE_CHECKING:
    from effsparse_cli.report.curves.page import CurvePage, Line, Point


@escaping(printable)
def render(page: CurvePage) -> str:
    infinite = page.look.infinite
    kept = sorted({point.kept for line in page.lines for point in _until_cut(line)}, reverse=True)
    direct = dict(zip(kept, compressions(kept, page.connections, infinite), strict=True))
    titles = ["direct", "kept", *(f"{line.name} {what}" for line in page.lines for what in ("active", "effective"))]
    rows = []
    for number in kept:
        cells = [direct[number], thousands(number)]
        for line in page.lines:
            point = next((p for p in line.points if p.kept == number), None)
            cells += ["", ""] if point is None else _cells(point, page.connections, infinite)
        rows.append(cells)
    title = f"{page.model}: effective against direct compression"
    ends = [_end(page, line) for line in page.lines]
    return "\n".join([title, "", *align_table(titles, rows, None, page.look), *ends, ""])


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


def _end(page: CurvePage, line: Line) -> str:
    kept = [k for k, _ in line.last]
    most, least = compressions([min(kept), max(kept)], page.connections, "inf")
    where = most if min(kept) == max(kept) else f"{least} to {most}"
    return f"{line.name}: disconnected beyond a direct compression of {where}"
