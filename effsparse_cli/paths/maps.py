"""Boolean values as channels that are empty, full, or have a map of positions. Few distinct maps occur, so each is
held once, as an integer with one bit per position, and known by a number: integers are joined and compared faster than
arrays, and numbers faster still.

A value without maps is an array, in which an axis has size 1 where all along it is equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Shape
from effsparse_cli.paths.bits import anywhere, every

EMPTY, FULL = 0, 1
Numbers = NDArray[np.intp]


class _Numbering(dict[int, int]):
    """By map; a new one gets the next number."""

    def __init__(self, full: int) -> None:
        super().__init__({0: EMPTY, full: FULL})
        self.maps = [0, full]

    def __missing__(self, map_: int) -> int:
        number = self[map_] = len(self.maps)
        self.maps.append(map_)
        return number


class Space:
    """The maps that occur over axes of the given sizes, and their numbers; `kin` are the spaces of the same pass, by
    their sizes."""

    def __init__(self, rest: Shape, kin: dict[Shape, Space]) -> None:
        self.rest = rest
        self.positions = math.prod(rest)
        self.number_of = _Numbering((1 << self.positions) - 1)
        self.maps = self.number_of.maps
        self._kin = kin
        self._reads: dict[object, dict[int, int]] = {}
        self._sets: dict[object, dict[bytes, int]] = {}

    def of(self, rest: Shape) -> Space:
        """The one over other sizes."""
        return space_of(rest, self._kin)

    def numbers(self, maps: Bools) -> Numbers:
        """Those of [maps, *rest]."""
        return np.array([self.number_of[each] for each in as_ints(maps)], np.intp)

    def reads(self, by: object) -> dict[int, int]:
        """The maps that somebody has read of these ones, by a code of theirs."""
        return self._reads.setdefault(by, {})

    def sets(self, by: object) -> dict[bytes, int]:
        """The numbers of the maps that somebody has read of full ones, by a key of theirs."""
        return self._sets.setdefault(by, {})


def space_of(rest: Shape, kin: dict[Shape, Space]) -> Space:
    if rest not in kin:
        kin[rest] = Space(rest, kin)
    return kin[rest]


@dataclass(frozen=True, eq=False)
class Maps:
    """Channel c, along `axis`, has the map with the number numbers[c] over the other axes, as they are stored."""

    axis: int
    numbers: Numbers
    space: Space

    @property
    def ndim(self) -> int:
        return len(self.space.rest) + 1

    @property
    def size(self) -> int:
        return len(self.numbers) * self.space.positions

    def any(self) -> bool:
        return bool(self.numbers.any())

    def used(self) -> tuple[list[int], Numbers]:
        """The maps that this value has, and which of them each channel has."""
        distinct, which = np.unique(self.numbers, return_inverse=True)
        return [self.space.maps[number] for number in distinct.tolist()], which

    def over(self, rest: Shape) -> Maps:
        """The same over more positions: an axis of size 1 may grow."""
        if rest == self.space.rest:
            return self
        grown = change(self, lambda maps: np.broadcast_to(maps, (len(maps), *rest)))
        assert isinstance(grown, Maps)
        return grown


Value = Bools | Maps

_UNIFORM = {truth: [np.full((1,) * rank, truth) for rank in range(33)] for truth in (False, True)}


def uniform(truth: bool, rank: int) -> Bools:
    """The array that is equal everywhere: the same object each time."""
    return _UNIFORM[truth][rank]


def settle(a: Bools) -> Bools:
    """The same array, or the uniform one."""
    data = a.tobytes()
    if b"\0" not in data:
        return uniform(True, a.ndim) if data else a
    return a if b"\1" in data else uniform(False, a.ndim)


def plain(truth: Bools, axis: int, rank: int) -> Bools:
    """One truth per channel, as an array."""
    if every(truth) and len(truth):
        return uniform(True, rank)
    return settle(truth.reshape((1,) * axis + (-1,) + (1,) * (rank - axis - 1)))


def dense(a: Value) -> Bools:
    if not isinstance(a, Maps):
        return a
    maps, which = a.used()
    return np.moveaxis(as_bools(maps, a.space.rest)[which], 0, a.axis)


def join(axis: int, numbers: Numbers, space: Space) -> Value:
    """An array, where no channel has a map."""
    if anywhere(numbers > FULL):
        return Maps(axis, numbers, space)
    return plain(numbers.astype(bool), axis, len(space.rest) + 1)


def sort(a: Bools, axis: int, kin: dict[Shape, Space]) -> Value:
    """An array by channels along an axis: itself, if there are no maps."""
    if a.size == a.shape[axis]:
        return a
    front = np.moveaxis(a, axis, 0)
    space = space_of(front.shape[1:], kin)
    return join(axis, space.numbers(front), space)


def change(a: Maps, verb: Callable[[Bools], Bools], axis: int | None = None) -> Value:
    """What a verb that leaves channels alone does to [maps, *rest]."""
    maps, which = a.used()
    changed = verb(as_bools(maps, a.space.rest))
    space = a.space.of(changed.shape[1:])
    return join(a.axis if axis is None else axis, space.numbers(changed)[which], space)


def as_ints(maps: Bools) -> list[int]:
    """[maps, *rest] to one integer per map."""
    packed = np.packbits(maps.reshape(len(maps), math.prod(maps.shape[1:])), axis=1, bitorder="little")
    return [int.from_bytes(row, "little") for row in as_keys(packed)]


def as_bools(maps: Sequence[int], rest: Shape) -> Bools:
    """And back."""
    positions = math.prod(rest)
    size = -(-positions // 8)
    packed = np.frombuffer(b"".join([each.to_bytes(size, "little") for each in maps]), np.uint8)
    bools = np.unpackbits(packed.reshape(len(maps), size), axis=1, count=positions, bitorder="little")
    return bools.view(bool).reshape(len(maps), *rest)


def as_keys(rows: NDArray[np.uint8]) -> list[bytes]:
    """Rows of bytes, to be looked up."""
    if not rows.size:
        return [b""] * len(rows)
    keys: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").reshape(-1).tolist()
    return keys
