"""Positions along the axes of a network's values, and facts about them: which are kept or removed together, which are
needed, and which are needed only by what reads them. `solve.py` draws the conclusions.

Every position has a number. An operator that only moves data passes the numbers on, so a value is described by the
numbers along its axes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools

Ids = NDArray[np.int64]
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class MergedAxis:
    """An axis that merges others, the last of them varying fastest. What remains of it must be a merged axis too."""

    whole: Ids
    parts: tuple[Ids, ...]


@dataclass(frozen=True, eq=False)
class Terms:
    """Sums over the axes `summed` of a constant. A position there is needed if it has a nonzero term at needed
    positions of the other axes."""

    nonzero: Bools
    axes: tuple[Ids, ...]
    summed: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Work:
    """The multiplications of one op call: the product of the sizes of these axes, times `factor`. `stored` is the name
    of its stored weight, if it has one; `groups` are those of a convolution."""

    stored: str | None
    axes: tuple[Ids, ...]
    factor: int = 1
    groups: Ids | None = None


@dataclass(frozen=True, eq=False)
class ValuePositions:
    """The positions of one value. `zeros` marks, for each axis, where the value is always zero. A constant has an
    `array`, and the name of the stored tensor that it comes from."""

    axes: tuple[Ids, ...]
    zeros: tuple[Bools, ...] = ()
    array: Array | None = None
    stored: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(ids) for ids in self.axes)

    def zero(self, axis: int) -> Bools:
        """Return the positions of an axis at which the value is always zero."""
        if self.array is not None:
            others = tuple(i for i in range(self.array.ndim) if i != axis)
            return np.asarray((self.array == 0).all(axis=others))
        return self.zeros[axis]

    @property
    def all_zero(self) -> bool:
        if self.array is not None:
            return not np.any(self.array != 0)
        return any(len(zero) > 0 and bool(zero.all()) for zero in self.zeros)


@dataclass
class PositionFacts:
    """The statements of the rules about positions so far; `size` is the number of positions."""

    size: int = 0
    joins: list[tuple[Ids, Ids]] = field(default_factory=list)
    needs: list[Ids] = field(default_factory=list)
    clauses: list[MergedAxis | Terms] = field(default_factory=list)
    axes: list[Ids] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)

    def axis(self, size: int) -> Ids:
        """Add an axis, and return the numbers of its positions."""
        ids = np.arange(self.size, self.size + size, dtype=np.int64)
        self.size += size
        self.axes.append(ids)
        return ids

    def join(self, a: Ids, b: Ids) -> None:
        """State that positions of two axes are kept or removed together, one by one."""
        if a is not b:
            self.joins.append((a, b))

    def need(self, *axes: Ids) -> None:
        """State that all positions of these axes are needed."""
        self.needs.extend(axes)

    def merged(self, whole: Ids, *parts: Ids) -> None:
        """State that an axis merges others."""
        self.clauses.append(MergedAxis(whole, parts))

    def terms(self, nonzero: Bools, axes: tuple[Ids, ...], summed: tuple[int, ...]) -> None:
        """State that a constant is summed over some of its axes."""
        self.clauses.append(Terms(nonzero, axes, summed))

    def fresh(self, shape: tuple[int, ...]) -> ValuePositions:
        """Add a value of which only the shape is known."""
        return ValuePositions(tuple(self.axis(n) for n in shape), tuple(np.zeros(n, bool) for n in shape))
