"""Boolean values as channels that are empty, full, or have a map of positions. Few distinct maps occur, so each is
stored once, as packed bits, and has a number.

A value without maps is an array in which an axis has size 1 if the values along it are equal.
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
class ChannelMaps:
    """Channel c along `axis` has the map in row numbers[c] of the table, over the other axes as they are stored. The
    first two rows of the table are the empty and the full map."""

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
        """Return the table as [maps, *rest]."""
        return unpack(self.table, math.prod(self.rest)).reshape(len(self.table), *self.rest)

    def over(self, rest: Shape) -> ChannelMaps:
        """Return the same over more positions: an axis of size 1 may grow."""
        if rest == self.rest:
            return self
        grown = apply_to_maps(self, lambda maps: np.broadcast_to(maps, (len(maps), *rest)))
        assert isinstance(grown, ChannelMaps)
        return grown


BoolValue = Bools | ChannelMaps

_UNIFORM = {truth: [np.full((1,) * rank, truth) for rank in range(33)] for truth in (False, True)}


def uniform(truth: bool, rank: int) -> Bools:
    """Return the array with one value everywhere, the same object each time."""
    return _UNIFORM[truth][rank]


def simplify(a: Bools) -> Bools:
    """Return the same array, or the uniform one if all values are equal."""
    data = a.tobytes()
    if b"\0" not in data:
        return uniform(True, a.ndim) if data else a
    return a if b"\1" in data else uniform(False, a.ndim)


def spread_channels(truth: Bools, axis: int, rank: int) -> Bools:
    """Return one value per channel as an array."""
    return truth.reshape((1,) * axis + (-1,) + (1,) * (rank - axis - 1))


def value_from_numbers(found: NumberedMaps, axis: int, rest: Shape) -> BoolValue:
    """Build a value from a result of the kernel, over positions of the given sizes."""
    if isinstance(found, int):
        return uniform(found == FULL, len(rest) + 1)
    numbers = np.frombuffer(found[0], np.int32)
    if found[1] is None:
        return spread_channels(numbers.astype(bool), axis, len(rest) + 1)
    return ChannelMaps(axis, numbers, np.frombuffer(found[1], np.uint64).reshape(-1, words_of(math.prod(rest))), rest)


def to_array(a: BoolValue) -> Bools:
    return np.moveaxis(a.bools()[a.numbers], 0, a.axis) if isinstance(a, ChannelMaps) else a


def build_value(axis: int, numbers: MapNumbers, table: Words, rest: Shape) -> BoolValue:
    """Build a value from numbers and a table; an array if no channel has its own map."""
    if anywhere(numbers > FULL):
        return ChannelMaps(axis, numbers, table, rest)
    return simplify(spread_channels(numbers.astype(bool), axis, len(rest) + 1))


def value_from_bits(axis: int, bits: Words, rest: Shape) -> BoolValue:
    """Build a value from [channels, words]."""
    return value_from_numbers(kernel.number(bits, len(bits), math.prod(rest)), axis, rest)


def group_channels(a: Bools, axis: int) -> BoolValue:
    """Group an array by channels along an axis. Return the array itself if there are no maps."""
    if a.size == a.shape[axis]:
        return a
    front = np.moveaxis(a, axis, 0)
    return value_from_bits(axis, pack(front.reshape(len(front), -1)), front.shape[1:])


def apply_to_maps(a: ChannelMaps, verb: Callable[[Bools], Bools], axis: int | None = None) -> BoolValue:
    """Apply an operation that leaves the channels alone to [maps, *rest]."""
    changed = verb(a.bools())
    table = pack(changed.reshape(len(changed), -1))
    return renumber(a.axis if axis is None else axis, a.numbers, table, changed.shape[1:])


def renumber(axis: int, numbers: MapNumbers, table: Words, rest: Shape) -> BoolValue:
    """Build a value from any table, which may have maps twice and other ones first."""
    return relabel(axis, numbers, kernel.number(table, len(table), math.prod(rest)), len(table), rest)


def relabel(axis: int, numbers: MapNumbers, found: NumberedMaps, count: int, rest: Shape) -> BoolValue:
    """Build a value from numbers of `count` old maps, given what the kernel has found for each of these."""
    of_maps = value_from_numbers(found, 0, rest)
    numbers = channel_numbers(of_maps, count)[numbers]
    if isinstance(of_maps, ChannelMaps):
        return build_value(axis, numbers, of_maps.table, rest)
    return simplify(spread_channels(numbers.astype(bool), axis, len(rest) + 1))


def channel_numbers(a: BoolValue, channels: int) -> MapNumbers:
    """Return the number of each channel's map."""
    if isinstance(a, ChannelMaps):
        return a.numbers if len(a.numbers) == channels else a.numbers.repeat(channels)
    if a.size == 1:
        return np.full(channels, FULL if a.item() else EMPTY, np.int32)
    return a.reshape(-1).astype(np.int32)


def channel_bits(a: BoolValue, channels: int, table: Words) -> Words:
    """Return [channels, words]. `table` is that of any value over the same positions."""
    return (a.table if isinstance(a, ChannelMaps) else table)[channel_numbers(a, channels)]
