"""Boolean values as channels that are empty, full, or have a map of positions. Few distinct maps occur, so each is held
once, packed to bits, and known by a number.

A value without maps is an array, in which an axis has size 1 where all along it is equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.primitives import Bools, Shape
from effsparse_cli.kernel.bits import Words, anywhere, pack, unpack, words_of
from effsparse_cli.kernel.structures import EMPTY, FULL, MapNumbers, NumberedMaps


@dataclass(frozen=True, eq=False)
class Maps:
    """Channel c, along `axis`, has the map in row numbers[c] of the table, over the other axes, as they are stored. The
    table begins with the empty and the full map."""

    axis: int
    numbers: MapNumbers
    table: Words
    rest: Shape

    @property
    def ndim(self) -> int:
        return len(self.rest) + 1

    @property
    def size(self) -> int:
        return len(self.numbers) * math.prod(self.rest)

    def any(self) -> bool:
        return bool(self.numbers.any())

    def bools(self) -> Bools:
        """The table, as [maps, *rest]."""
        return unpack(self.table, math.prod(self.rest)).reshape(len(self.table), *self.rest)

    def over(self, rest: Shape) -> Maps:
        """The same over more positions: an axis of size 1 may grow."""
        if rest == self.rest:
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
    return truth.reshape((1,) * axis + (-1,) + (1,) * (rank - axis - 1))


def value_of(found: NumberedMaps, axis: int, rest: Shape) -> Value:
    """What the kernel has found, over positions of the given sizes."""
    if isinstance(found, int):
        return uniform(found == FULL, len(rest) + 1)
    numbers = np.frombuffer(found[0], np.int32)
    if found[1] is None:
        return plain(numbers.astype(bool), axis, len(rest) + 1)
    return Maps(axis, numbers, np.frombuffer(found[1], np.uint64).reshape(-1, words_of(math.prod(rest))), rest)


def dense(a: Value) -> Bools:
    return np.moveaxis(a.bools()[a.numbers], 0, a.axis) if isinstance(a, Maps) else a


def join(axis: int, numbers: MapNumbers, table: Words, rest: Shape) -> Value:
    """An array, where no channel has a map."""
    if anywhere(numbers > FULL):
        return Maps(axis, numbers, table, rest)
    return settle(plain(numbers.astype(bool), axis, len(rest) + 1))


def of_bits(axis: int, bits: Words, rest: Shape) -> Value:
    """By channels: [channels, words]."""
    return value_of(kernel.number(bits, len(bits), math.prod(rest)), axis, rest)


def sort(a: Bools, axis: int) -> Value:
    """An array by channels along an axis: itself, if there are no maps."""
    if a.size == a.shape[axis]:
        return a
    front = np.moveaxis(a, axis, 0)
    return of_bits(axis, pack(front.reshape(len(front), -1)), front.shape[1:])


def change(a: Maps, verb: Callable[[Bools], Bools], axis: int | None = None) -> Value:
    """What a verb that leaves channels alone does to [maps, *rest]."""
    changed = verb(a.bools())
    table = pack(changed.reshape(len(changed), -1))
    return renumber(a.axis if axis is None else axis, a.numbers, table, changed.shape[1:])


def renumber(axis: int, numbers: MapNumbers, table: Words, rest: Shape) -> Value:
    """Numbers of rows in any table, where maps may come twice, or not be the usual first two."""
    return relabel(axis, numbers, kernel.number(table, len(table), math.prod(rest)), len(table), rest)


def relabel(axis: int, numbers: MapNumbers, found: NumberedMaps, count: int, rest: Shape) -> Value:
    """Numbers of maps, of which there are so many, after the kernel has found others for them."""
    of_maps = value_of(found, 0, rest)
    numbers = numbers_of(of_maps, count)[numbers]
    if isinstance(of_maps, Maps):
        return join(axis, numbers, of_maps.table, rest)
    return settle(plain(numbers.astype(bool), axis, len(rest) + 1))


def numbers_of(a: Value, channels: int) -> MapNumbers:
    """By channels."""
    if isinstance(a, Maps):
        return a.numbers if len(a.numbers) == channels else a.numbers.repeat(channels)
    if a.size == 1:
        return np.full(channels, FULL if a.item() else EMPTY, np.int32)
    return a.reshape(-1).astype(np.int32)


def bits_of(a: Value, channels: int, table: Words) -> Words:
    """By channels: [channels, words]; the table is that of any value over the same positions."""
    return (a.table if isinstance(a, Maps) else table)[numbers_of(a, channels)]
