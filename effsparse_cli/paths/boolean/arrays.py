"""Arrays of the boolean semiring (or, and): channel maps where few distinct maps occur, boolean arrays elsewhere.

Operations that leave the channels alone are applied to the distinct maps, all others to the whole array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.equations import split_equation
from effsparse_cli.graph.primitives import Bools, Ints, Shape, Taps
from effsparse_cli.kernel.bits import pack
from effsparse_cli.kernel.structures import EMPTY, FULL, NumberedMaps
from effsparse_cli.paths.boolean.geometry import BothGeometries, WindowGeometry, build_geometries
from effsparse_cli.paths.boolean.maps import (
    BoolValue,
    ChannelMaps,
    apply_to_maps,
    build_value,
    channel_bits,
    channel_numbers,
    relabel,
    renumber,
    simplify,
    spread_channels,
    to_array,
    uniform,
    value_from_bits,
)
from effsparse_cli.paths.lattice import DENSE


class BooleanArrays:
    def lift(self, nonzero: Bools, shape: Shape) -> BoolValue:
        return simplify(nonzero)

    def support(self, a: BoolValue) -> BoolValue:
        return a

    def any(self, a: BoolValue) -> bool:
        return bool(a.item() if a.size == 1 else a.any())  # type: ignore[union-attr]

    def is_one(self, a: BoolValue) -> bool:
        return not isinstance(a, ChannelMaps) and bool(a.all())

    def same(self, a: BoolValue, b: BoolValue) -> bool:
        return a is b or bool((to_array(a) == to_array(b)).all())

    def plus(self, terms: Sequence[BoolValue]) -> BoolValue:
        left: list[BoolValue] = []
        for term in terms:
            if isinstance(term, ChannelMaps) or term.size != 1:
                left.append(term)
            elif term.item():
                return term
        if len(left) < 2:
            return left[0] if left else terms[0]
        return _each(left, np.bitwise_or, np.logical_or)

    def product(self, equation: str, a: BoolValue, b: BoolValue) -> BoolValue:
        if elementwise(equation):
            for one, other in ((a, b), (b, a)):
                if one.size == 1:
                    return other if one.item() else one  # type: ignore[union-attr]
            return _each([a, b], np.bitwise_and, np.logical_and)
        if a.size == b.size == 1:
            return uniform(a.item() and b.item(), len(equation) - equation.index(">") - 1)  # type: ignore[union-attr]
        return simplify(DENSE.product(equation, to_array(a), to_array(b)))

    def total(self, a: BoolValue, axes: Sequence[int]) -> BoolValue:
        if a.size == 1:
            return a
        if not isinstance(a, ChannelMaps):
            return simplify(DENSE.total(a, axes))
        if a.axis in axes:
            return simplify(DENSE.total(to_array(a), axes))
        summed = [_other(a, axis) for axis in axes]
        if all(n == 1 or i in summed for i, n in enumerate(a.rest, 1)):
            return simplify(spread_channels(a.numbers != EMPTY, a.axis, a.ndim))
        return apply_to_maps(a, lambda maps: DENSE.total(maps, summed))

    def expand(self, a: BoolValue, shape: Shape) -> BoolValue:
        return a

    # Data movement

    def permute(self, a: BoolValue, dims: Sequence[int]) -> BoolValue:
        if not isinstance(a, ChannelMaps):
            return a if a.size == 1 else a.transpose(dims)
        axis = list(dims).index(a.axis)
        order = [_other(a, dim) for dim in dims if dim != a.axis]
        if order == sorted(order):
            return ChannelMaps(axis, a.numbers, a.table, a.rest)
        return apply_to_maps(a, lambda maps: maps.transpose(0, *order), axis)

    def reshape(self, a: BoolValue, old: Shape, new: Shape) -> BoolValue:
        if a.size == 1:
            return uniform(a.item(), len(new))  # type: ignore[union-attr]
        if not isinstance(a, ChannelMaps):
            return DENSE.reshape(a, old, new)
        axis = _same_axis(old, a.axis, new)
        if axis is None:
            return simplify(DENSE.reshape(to_array(a), old, new))
        before, after = (old[: a.axis] + old[a.axis + 1 :]), (new[:axis] + new[axis + 1 :])
        return apply_to_maps(a, lambda maps: DENSE.reshape(maps, (len(maps), *before), (len(maps), *after)), axis)

    def take(self, a: BoolValue, axis: int, index: Ints) -> BoolValue:
        if not isinstance(a, ChannelMaps):
            return simplify(DENSE.take(a, axis, index))
        if axis != a.axis:
            return apply_to_maps(a, lambda maps: DENSE.take(maps, _other(a, axis), index))
        return build_value(axis, np.where(index >= 0, a.numbers[index], EMPTY).astype(np.int32), a.table, a.rest)

    def put(self, a: BoolValue, axis: int, index: Ints, size: int) -> BoolValue:
        if not isinstance(a, ChannelMaps):
            return simplify(DENSE.put(a, axis, index, size))
        if axis != a.axis:
            return apply_to_maps(a, lambda maps: DENSE.put(maps, _other(a, axis), index, size))
        inside = index >= 0
        where = index[inside]
        if len(np.unique(where)) < len(where):
            return simplify(DENSE.put(to_array(a), axis, index, size))
        numbers = np.zeros(size, np.int32)
        numbers[where] = a.numbers[inside]
        return build_value(axis, numbers, a.table, a.rest)

    def concat(self, parts: Sequence[BoolValue], axis: int, sizes: Sequence[int]) -> BoolValue:
        maps = next((part for part in parts if isinstance(part, ChannelMaps)), None)
        if maps is None:
            if all(part is parts[0] for part in parts) and parts[0].size == 1:
                return parts[0]
            return DENSE.concat(parts, axis, sizes)  # type: ignore[arg-type]
        if not all(_fits(part, axis, maps.rest) for part in parts):
            return simplify(DENSE.concat([to_array(part) for part in parts], axis, sizes))
        numbers, tables, rows = [], [maps.table[:2]], 2
        for part, n in zip(parts, sizes, strict=True):
            numbers.append(channel_numbers(part, n))
            if isinstance(part, ChannelMaps):
                numbers[-1] = np.where(numbers[-1] > FULL, numbers[-1] + np.int32(rows), numbers[-1])
                tables.append(part.table)
                rows += len(part.table)
        return renumber(axis, np.concatenate(numbers), np.concatenate(tables), maps.rest)

    def split(self, a: BoolValue, axis: int, sizes: Sequence[int]) -> list[BoolValue]:
        if not isinstance(a, ChannelMaps):
            return [a] * len(sizes) if a.shape[axis] == 1 else [simplify(part) for part in DENSE.split(a, axis, sizes)]
        if a.axis != axis:
            return [simplify(part) for part in DENSE.split(to_array(a), axis, sizes)]
        has_map, ends = (a.numbers > FULL).tobytes(), np.cumsum(sizes).tolist()
        parts: list[BoolValue] = []
        for end, n in zip(ends, sizes, strict=True):
            numbers = a.numbers[end - n : end]
            if b"\1" in has_map[end - n : end]:
                parts.append(ChannelMaps(axis, numbers, a.table, a.rest))
            else:
                parts.append(simplify(spread_channels(numbers.astype(bool), axis, a.ndim)))
        return parts

    def window(self, a: BoolValue, axis: int, table: Taps) -> BoolValue:
        if not isinstance(a, ChannelMaps) or axis == a.axis:
            return simplify(DENSE.window(to_array(a), axis, table))
        if _is_regular(a, axis, table):
            return _read(a, _window_of(a, axis, table, a.rest[_other(a, axis) - 1])[0], kernel.forward)
        return apply_to_maps(a, lambda maps: DENSE.window(maps, _other(a, axis), table))

    def unwindow(self, a: BoolValue, axis: int, table: Taps, size: int) -> BoolValue:
        if not isinstance(a, ChannelMaps) or axis == a.axis:
            return simplify(DENSE.unwindow(to_array(a), axis, table, size))
        if _is_regular(a, axis, table):
            return _read(a, _window_of(a, axis, table, size)[1], kernel.backward)
        return apply_to_maps(a, lambda maps: DENSE.unwindow(maps, _other(a, axis), table, size))


BOOLEAN = BooleanArrays()


def _each(terms: Sequence[BoolValue], of_words: np.ufunc, of_bools: np.ufunc) -> BoolValue:
    """Apply an operation position by position, with broadcasting."""
    maps = next((term for term in terms if isinstance(term, ChannelMaps)), None)
    if maps is None or not all(_fits(term, maps.axis, maps.rest) for term in terms):
        return simplify(reduce(of_bools, map(to_array, terms)))
    channels = max(len(term.numbers) if isinstance(term, ChannelMaps) else term.shape[maps.axis] for term in terms)
    bits = reduce(of_words, [channel_bits(term, channels, maps.table) for term in terms])
    return value_from_bits(maps.axis, bits, maps.rest)


def _is_regular(a: ChannelMaps, axis: int, table: Taps) -> bool:
    """Whether the kernel can apply the window: the axis is stored in full, and no tap reads a position twice."""
    return a.rest[_other(a, axis) - 1] > 1 and _reads_apart(table.tobytes(), table.shape, table.dtype.str)


@lru_cache(maxsize=1024)
def _reads_apart(data: bytes, shape: Shape, dtype: str) -> bool:
    rows = (row[row >= 0] for row in np.frombuffer(data, dtype).reshape(shape))
    return all(len(np.unique(row)) == len(row) for row in rows)


def _window_of(a: ChannelMaps, axis: int, table: Taps, size: int) -> BothGeometries:
    """Return the window as taps over all axes of the maps; other axes have one tap, which reads the same position."""
    place = _other(a, axis) - 1
    windows = tuple(table if i == place else np.arange(n)[None] for i, n in enumerate(a.rest))
    return build_geometries(windows, (*a.rest[:place], size, *a.rest[place + 1 :]), 1)


def _read(a: ChannelMaps, way: WindowGeometry, carry: Callable[..., NumberedMaps]) -> BoolValue:
    """Read every map as a separate channel, by a weight that keeps all taps."""
    count, taps = len(a.table), way.geometry.taps
    weight = np.repeat(pack(np.ones((1, taps), bool)), count, axis=0)
    found = carry(weight, count, 1, np.arange(count, dtype=np.int32), a.table, way.geometry)
    return relabel(a.axis, a.numbers, found, count, way.out)


def _fits(a: BoolValue, axis: int, rest: Shape) -> bool:
    """Whether the value has channels along the axis and no maps over other positions."""
    return (a.axis == axis and a.rest == rest) if isinstance(a, ChannelMaps) else a.size == a.shape[axis]


def _other(a: ChannelMaps, axis: int) -> int:
    """Return the index of an axis of the value in [maps, *rest]."""
    return axis + 1 if axis < a.axis else axis


def _same_axis(old: Shape, axis: int, new: Shape) -> int | None:
    """Return the axis of the new shape that is the same axis of the old one, or None."""
    before, n = math.prod(old[:axis]), 1
    for i, size in enumerate(new):
        if n == before and size == old[axis]:
            return i
        n *= size
    return None


@lru_cache(maxsize=1024)
def elementwise(equation: str) -> bool:
    left, right, result = split_equation(equation)
    return left == right == result
