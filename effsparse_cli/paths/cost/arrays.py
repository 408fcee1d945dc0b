"""Arrays of the cost semiring (min, +): how many connections that are not kept a path needs.

A cost is stored as booleans: plane k of an array is true where k additions are enough. Every operation is then the
boolean one, plane by plane, exact at single positions. Only a product adds costs; what both factors need counts twice.
Paths through one given layer are kept separately, like a derivative: a product runs through the layer if either factor
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from effsparse_cli.graph.primitives import Bools, Shape
from effsparse_cli.paths.boolean.arrays import BOOLEAN
from effsparse_cli.paths.boolean.maps import BoolValue, uniform

Planes = tuple[BoolValue | None, ...]
"""Each plane includes the one before it. None is empty."""


@dataclass(frozen=True, eq=False)
class Priced:
    """`free`: all paths; `through`: paths that run through the given layer. A `side` only tells what is not zero: a
    constant that passes through the layer is not a path."""

    free: Planes
    through: Planes
    side: bool = False


def tidy(planes: Sequence[BoolValue | None]) -> Planes:
    """Make equal planes the same object, so that operations on them run once."""
    kept: list[BoolValue | None] = []
    for plane in planes:
        if plane is not None and not BOOLEAN.any(plane):
            plane = None
        before = kept[-1] if kept else None
        same = plane is not None and before is not None and BOOLEAN.same(plane, before)
        kept.append(before if same else plane)
    return tuple(kept)


def union(planes: Sequence[BoolValue | None]) -> BoolValue | None:
    some = [plane for plane in planes if plane is not None]
    return BOOLEAN.plus(some) if some else None


def each(planes: Planes, verb: Callable[[BoolValue], BoolValue]) -> Planes:
    """Apply an operation once to each plane that differs from the one before."""
    done: dict[int, BoolValue] = {}
    for plane in planes:
        if plane is not None and id(plane) not in done:
            done[id(plane)] = verb(plane)
    return tuple(None if plane is None else done[id(plane)] for plane in planes)


def pairs(a: Planes, b: Planes, cost: int) -> list[tuple[BoolValue, BoolValue]]:
    """Return pairs of planes whose costs add up to `cost`, without those that add nothing new."""
    found = []
    for i in range(cost + 1):
        x, y = a[i], b[cost - i]
        if x is not None and y is not None and (i == 0 or x is not a[i - 1]):
            found.append((x, y))
    return found


def _combine(parts: Sequence[Priced], verb: Callable[[Sequence[BoolValue | None]], BoolValue | None]) -> Priced:
    """Combine the planes of several arrays, cost by cost."""
    free, through = (
        tidy([verb(planes) for planes in zip(*given, strict=True)])
        for given in ([part.free for part in parts], [part.through for part in parts])
    )
    return Priced(free, through, all(part.side for part in parts))


def _plane_by_plane(name: str) -> Callable[..., Priced]:
    """Return the operation of BOOLEAN of this name, applied to each plane."""
    verb = getattr(BOOLEAN, name)

    def apply(self: CostArrays, a: Priced, *args: Any) -> Priced:
        free, through = (each(planes, lambda plane: verb(plane, *args)) for planes in (a.free, a.through))
        return Priced(free, through, a.side)

    return apply


class CostArrays:
    """`planes` is the number of costs, from 0 on."""

    def __init__(self, planes: int) -> None:
        self._planes = planes

    def lift(self, nonzero: Bools, shape: Shape) -> Priced:
        return Priced(tidy([BOOLEAN.lift(nonzero, shape)] * self._planes), (None,) * self._planes)

    def support(self, a: Priced) -> Priced:
        return replace(a, side=True)

    def any(self, a: Priced) -> bool:
        return a.free[-1] is not None

    def is_one(self, a: Priced) -> bool:
        return all(plane is not None and BOOLEAN.is_one(plane) for plane in (a.free[0], a.through[0]))

    def same(self, a: Priced, b: Priced) -> bool:
        return a is b or all(
            p is q or (p is not None and q is not None and BOOLEAN.same(p, q))
            for p, q in zip(a.free + a.through, b.free + b.through, strict=True)
        )

    def plus(self, terms: Sequence[Priced]) -> Priced:
        if len(terms) == 1:
            return terms[0]
        return _combine(terms, union)

    def product(self, equation: str, a: Priced, b: Priced) -> Priced:
        def times(*factors: tuple[Planes, Planes]) -> Planes:
            return tidy(
                [
                    union([BOOLEAN.product(equation, x, y) for one, other in factors for x, y in pairs(one, other, k)])
                    for k in range(self._planes)
                ]
            )

        through = times((a.through, b.free), (a.free, b.through))
        return Priced(times((a.free, b.free)), through, a.side and b.side)

    total = _plane_by_plane("total")
    expand = _plane_by_plane("expand")
    permute = _plane_by_plane("permute")
    reshape = _plane_by_plane("reshape")
    take = _plane_by_plane("take")
    put = _plane_by_plane("put")
    window = _plane_by_plane("window")
    unwindow = _plane_by_plane("unwindow")

    def split(self, a: Priced, axis: int, sizes: Sequence[int]) -> list[Priced]:
        ends = np.cumsum(sizes).tolist()
        return [self.take(a, axis, np.arange(end - n, end)) for end, n in zip(ends, sizes, strict=True)]

    def concat(self, parts: Sequence[Priced], axis: int, sizes: Sequence[int]) -> Priced:
        def join_planes(planes: Sequence[BoolValue | None]) -> BoolValue | None:
            rank = next((plane.ndim for plane in planes if plane is not None), None)
            if rank is None:
                return None
            return BOOLEAN.concat([uniform(False, rank) if plane is None else plane for plane in planes], axis, sizes)

        return _combine(parts, join_planes)
