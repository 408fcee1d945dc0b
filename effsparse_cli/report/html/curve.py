"""The curve of further pruning as coordinates of an SVG picture on log axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from effsparse_cli.formatting import compressions, thousands

if TYPE_CHECKING:
    from effsparse_cli.report.curves import Curves

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 700, 26, 326


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Spot:
    x: float
    y: float
    label: str


@dataclass(frozen=True)
class CurvePicture:
    """`line` and `diagonal` are the coordinates of SVG polylines."""

    method: str
    end: str
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    points: Sequence[Spot]
    last: Spot
    line: str
    diagonal: str
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    bottom: int = BOTTOM


def curve_to_json(curves: Curves) -> dict[str, Any]:
    """Return the first line of `curves` as data: one seed, and compressions as numbers."""
    line, connections = curves.lines[0], curves.connections
    points = [_point(point.kept, point.active[0], connections) for point in line.points]
    return {"method": line.name, "points": points, "last": _point(*line.last[0], connections)}


def draw_curve(curves: Curves) -> CurvePicture:
    line, connections = curves.lines[0], curves.connections
    counts = [(point.kept, point.active[0]) for point in line.points if point.active[0]]
    every = [connections / n for pair in (*counts, line.last[0]) for n in pair]
    low, high = min(every), max(*every, 1.01 * min(every))

    def place(kept: int, active: int) -> Spot:
        direct, effective = compressions([kept, active], connections, "∞")
        at = [math.log(connections / n / low) / math.log(high / low) for n in (kept, active)]
        label = f"direct {direct}, effective {effective}: {thousands(active)} of {thousands(kept)} kept are active"
        return Spot(round(LEFT + at[0] * (RIGHT - LEFT), 1), round(BOTTOM - at[1] * (BOTTOM - TOP), 1), label)

    spots, last = [place(*pair) for pair in counts], place(*line.last[0])
    (end,) = compressions([line.last[0][0]], connections, "∞")
    ticks = [(math.log(value / low) / math.log(high / low), f"{value:,g}x") for value in find_ticks(low, high)]
    return CurvePicture(
        method=line.name,
        end=f"Beyond a direct compression of {end}, marked by a cross, it is disconnected.",
        x_ticks=[Tick(round(LEFT + at * (RIGHT - LEFT), 1), label) for at, label in ticks],
        y_ticks=[Tick(round(BOTTOM - at * (BOTTOM - TOP), 1), label) for at, label in ticks],
        points=spots,
        last=last,
        line=" ".join(f"{spot.x},{spot.y}" for spot in (*spots, last)),
        diagonal=f"{LEFT},{BOTTOM} {RIGHT},{TOP}",
    )


def find_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two numbers: powers of ten, or also their multiples if there are few."""
    for steps in ((1,), (1, 2, 5), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)):
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [step * 10**exponent for exponent in exponents for step in steps]
        ticks = [tick for tick in ticks if low <= tick * (1 + 1e-9) and tick <= high * (1 + 1e-9)]
        if len(ticks) > 2:
            return ticks
    return [low, high]


def _point(kept: int, active: int, connections: int) -> dict[str, Any]:
    return {
        "direct_compression": connections / kept,
        "effective_compression": connections / active if active else None,
        "kept": kept,
        "active": active,
    }
