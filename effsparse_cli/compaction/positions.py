"""Positions along the axes of a network's values, and what operators say about them: which stand or fall together,
which are needed outright, which are needed only by what reads them. Facts enter here; `solve.py` draws the conclusion.

Every position has a number. An operator that only moves data hands the numbers on, so that a value is known by the
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
class Box:
    """An axis whose positions are the tuples of positions of its parts, the last part running fastest: what is left
    of it must be such tuples again."""

    whole: Ids
    parts: tuple[Ids, ...]


@dataclass(frozen=True, eq=False)
class Terms:
    """Sums over the axes `summed` of a constant: a position there is needed if a term that is not zero lies at it,
    and at positions of the other axes that are needed themselves."""

    nonzero: Bools
    axes: tuple[Ids, ...]
    summed: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Work:
    """The multiplications of one operator: the product of the sizes of these axes, `factor` times. `stored` names the
    tensor that holds its weights, if one does; `groups` are those of a convolution."""

    stored: str | None
    axes: tuple[Ids, ...]
    factor: int = 1
    groups: Ids | None = None


@dataclass(frozen=True, eq=False)
class Value:
    """`zeros` marks per axis the positions at which the value is always zero. A constant has its numbers, and `stored`
    names the tensor that they come from."""

    axes: tuple[Ids, ...]
    zeros: tuple[Bools, ...] = ()
    array: Array | None = None
    stored: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(ids) for ids in self.axes)

    def zero(self, axis: int) -> Bools:
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
class Facts:
    size: int = 0
    joins: list[tuple[Ids, Ids]] = field(default_factory=list)
    needs: list[Ids] = field(default_factory=list)
    clauses: list[Box | Terms] = field(default_factory=list)
    axes: list[Ids] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)

    def axis(self, size: int) -> Ids:
        """A new axis."""
        ids = np.arange(self.size, self.size + size, dtype=np.int64)
        self.size += size
        self.axes.append(ids)
        return ids

    def join(self, a: Ids, b: Ids) -> None:
        """Position by position, both stay or both go."""
        if a is not b:
            self.joins.append((a, b))

    def need(self, *axes: Ids) -> None:
        """Nothing of these can go."""
        self.needs.extend(axes)

    def box(self, whole: Ids, *parts: Ids) -> None:
        self.clauses.append(Box(whole, parts))

    def terms(self, nonzero: Bools, axes: tuple[Ids, ...], summed: tuple[int, ...]) -> None:
        self.clauses.append(Terms(nonzero, axes, summed))

    def fresh(self, shape: tuple[int, ...]) -> Value:
        """A value of which only the shape is known."""
        return Value(tuple(self.axis(n) for n in shape), tuple(np.zeros(n, bool) for n in shape))
