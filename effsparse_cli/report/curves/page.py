"""The page that every format of `effsparse curve` renders: one line per method and quota, with all seeds together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from effsparse_cli.report.look import Look


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


@dataclass(frozen=True)
class CurvePage:
    model: str
    connections: int
    lines: Sequence[Line]
    look: Look = field(default_factory=Look)
