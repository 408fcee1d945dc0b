"""Arrays of the boolean semiring (or, and): values by channels (Maps) where few maps say all, plain arrays elsewhere.

Whatever leaves the channels alone is done to the few distinct maps; what does not is done to the whole array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.primitives import Bools, Ints, Shape, Taps
from effsparse_cli.kernel.bits import pack
from effsparse_cli.kernel.structures import EMPTY, FULL, NumberedMaps
from effsparse_cli.paths.geometry import Both, Way, ways_of
from effsparse_cli.paths.lattice import DENSE
from effsparse_cli.paths.maps import (
    Maps,
    Value,
    bits_of,
    change,
    dense,
    join,
    numbers_of,
    of_bits,
    plain,
    relabel,
    renumber,
    settle,
    uniform,
)


class BooleanArrays:
    def lift(self, nonzero: Bools, shape: Shape) -> Value:
        return settle(nonzero)

    def support(self, a: Value) -> Value:
        return a

    def any(self, a: Value) -> bool:
        return bool(a.item() if a.size == 1 else a.any())  # type: ignore[union-attr]

    def is_one(self, a: Value) -> bool:
        return not isinstance(a, Maps) and bool(a.all())

    def same(self, a: Value, b: Value) -> bool:
        return a is b or bool((dense(a) == dense(b)).all())

    def plus(self, terms: Sequence[Value]) -> Value:
        left: list[Value] = []
        for term in terms:
            if isinstance(term, Maps) or term.size != 1:
                left.append(term)
            elif term.item():
                return term
        if len(left) < 2:
            return left[0] if left else terms[0]
        return _each(left, np.bitwise_or, np.logical_or)

    def product(self, equation: str, a: Value, b: Value) -> Value:
        if elementwise(equation):
            for one, other in ((a, b), (b, a)):
                if one.size == 1:
                    return other if one.item() else one  # type: ignore[union-attr]
            return _each([a, b], np.bitwise_and, np.logical_and)
        if a.size == b.size == 1:
            return uniform(a.item() and b.item(), len(equation) - equation.index(">") - 1)  # type: ignore[union-attr]
        return settle(DENSE.product(equation, dense(a), dense(b)))

    def total(self, a: Value, axes: Sequence[int]) -> Value:
        if a.size == 1:
            return a
        if not isinstance(a, Maps):
            return settle(DENSE.total(a, axes))
        if a.axis in axes:
            return settle(DENSE.total(dense(a), axes))
        summed = [_other(a, axis) for axis in axes]
        if all(n == 1 or i in summed for i, n in enumerate(a.rest, 1)):
            return settle(plain(a.numbers != EMPTY, a.axis, a.ndim))
        return change(a, lambda maps: DENSE.total(maps, summed))

    def expand(self, a: Value, shape: Shape) -> Value:
        return a

    # Data movement

    def permute(self, a: Value, dims: Sequence[int]) -> Value:
        if not isinstance(a, Maps):
            return a if a.size == 1 else a.transpose(dims)
        axis = list(dims).index(a.axis)
        order = [_other(a, dim) for dim in dims if dim != a.axis]
        if order == sorted(order):
            return Maps(axis, a.numbers, a.table, a.rest)
        return change(a, lambda maps: maps.transpose(0, *order), axis)

    def reshape(self, a: Value, old: Shape, new: Shape) -> Value:
        if a.size == 1:
            return uniform(a.item(), len(new))  # type: ignore[union-attr]
        if not isinstance(a, Maps):
            return DENSE.reshape(a, old, new)
        axis = _same_axis(old, a.axis, new)
        if axis is None:
            return settle(DENSE.reshape(dense(a), old, new))
        before, after = (old[: a.axis] + old[a.axis + 1 :]), (new[:axis] + new[axis + 1 :])
        return change(a, lambda maps: DENSE.reshape(maps, (len(maps), *before), (len(maps), *after)), axis)

    def take(self, a: Value, axis: int, index: Ints) -> Value:
        if not isinstance(a, Maps):
            return settle(DENSE.take(a, axis, index))
        if axis != a.axis:
            return change(a, lambda maps: DENSE.take(maps, _other(a, axis), index))
        return join(axis, np.where(index >= 0, a.numbers[index], EMPTY).astype(np.int32), a.table, a.rest)

    def put(self, a: Value, axis: int, index: Ints, size: int) -> Value:
        if not isinstance(a, Maps):
            return settle(DENSE.put(a, axis, index, size))
        if axis != a.axis:
            return change(a, lambda maps: DENSE.put(maps, _other(a, axis), index, size))
        inside = index >= 0
        where = index[inside]
        if len(np.unique(where)) < len(where):
            return settle(DENSE.put(dense(a), axis, index, size))
        numbers = np.zeros(size, np.int32)
        numbers[where] = a.numbers[inside]
        return join(axis, numbers, a.table, a.rest)

    def concat(self, parts: Sequence[Value], axis: int, sizes: Sequence[int]) -> Value:
        maps = next((part for part in parts if isinstance(part, Maps)), None)
        if maps is None:
            if all(part is parts[0] for part in parts) and parts[0].size == 1:
                return parts[0]
            return DENSE.concat(parts, axis, sizes)  # type: ignore[arg-type]
        if not all(_fits(part, axis, maps.rest) for part in parts):
            return settle(DENSE.concat([dense(part) for part in parts], axis, sizes))
        numbers, tables, rows = [], [maps.table[:2]], 2
        for part, n in zip(parts, sizes, strict=True):
            numbers.append(numbers_of(part, n))
            if isinstance(part, Maps):
                numbers[-1] = np.where(numbers[-1] > FULL, numbers[-1] + np.int32(rows), numbers[-1])
                tables.append(part.table)
                rows += len(part.table)
        return renumber(axis, np.concatenate(numbers), np.concatenate(tables), maps.rest)

    def split(self, a: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        if not isinstance(a, Maps):
            return [a] * len(sizes) if a.shape[axis] == 1 else [settle(part) for part in DENSE.split(a, axis, sizes)]
        if a.axis != axis:
            return [settle(part) for part in DENSE.split(dense(a), axis, sizes)]
        has_map, ends = (a.numbers > FULL).tobytes(), np.cumsum(sizes).tolist()
        parts: list[Value] = []
        for end, n in zip(ends, sizes, strict=True):
            numbers = a.numbers[end - n : end]
            if b"\1" in has_map[end - n : end]:
                parts.append(Maps(axis, numbers, a.table, a.rest))
            else:
                parts.append(settle(plain(numbers.astype(bool), axis, a.ndim)))
        return parts

    def window(self, a: Value, axis: int, table: Taps) -> Value:
        if not isinstance(a, Maps) or axis == a.axis:
            return settle(DENSE.window(dense(a), axis, table))
        if _is_plain(a, axis, table):
            return _read(a, _window_of(a, axis, table, a.rest[_other(a, axis) - 1])[0], kernel.forward)
        return change(a, lambda maps: DENSE.window(maps, _other(a, axis), table))

    def unwindow(self, a: Value, axis: int, table: Taps, size: int) -> Value:
        if not isinstance(a, Maps) or axis == a.axis:
            return settle(DENSE.unwindow(dense(a), axis, table, size))
        if _is_plain(a, axis, table):
            return _read(a, _window_of(a, axis, table, size)[1], kernel.backward)
        return change(a, lambda maps: DENSE.unwindow(maps, _other(a, axis), table, size))


BOOLEAN = BooleanArrays()


def _each(terms: Sequence[Value], of_bits_: np.ufunc, of_bools: np.ufunc) -> Value:
    """Position by position, broadcasting."""
    maps = next((term for term in terms if isinstance(term, Maps)), None)
    if maps is None or not all(_fits(term, maps.axis, maps.rest) for term in terms):
        return settle(reduce(of_bools, map(dense, terms)))
    channels = max(len(term.numbers) if isinstance(term, Maps) else term.shape[maps.axis] for term in terms)
    bits = reduce(of_bits_, [bits_of(term, channels, maps.table) for term in terms])
    return of_bits(maps.axis, bits, maps.rest)


def _is_plain(a: Maps, axis: int, table: Taps) -> bool:
    """Can the kernel read it: is the axis stored in full, and does no tap read a position twice, as in resizing?"""
    return a.rest[_other(a, axis) - 1] > 1 and _reads_apart(table.tobytes(), table.shape, table.dtype.str)


@lru_cache(maxsize=1024)
def _reads_apart(data: bytes, shape: Shape, dtype: str) -> bool:
    rows = (row[row >= 0] for row in np.frombuffer(data, dtype).reshape(shape))
    return all(len(np.unique(row)) == len(row) for row in rows)


def _window_of(a: Maps, axis: int, table: Taps, size: int) -> Both:
    """The window as taps over all axes of the maps: on the others there is one, which reads every position itself."""
    place = _other(a, axis) - 1
    windows = tuple(table if i == place else np.arange(n)[None] for i, n in enumerate(a.rest))
    return ways_of(windows, (*a.rest[:place], size, *a.rest[place + 1 :]), 1)


def _read(a: Maps, way: Way, carry: Callable[..., NumberedMaps]) -> Value:
    """Every map as a channel of its own, by a weight that keeps all taps."""
    count, taps = len(a.table), way.geometry.taps
    weight = np.repeat(pack(np.ones((1, taps), bool)), count, axis=0)
    found = carry(weight, count, 1, np.arange(count, dtype=np.int32), a.table, way.geometry)
    return relabel(a.axis, a.numbers, found, count, way.out)


def _fits(a: Value, axis: int, rest: Shape) -> bool:
    """Does it have channels along the axis, and no maps over other positions?"""
    return (a.axis == axis and a.rest == rest) if isinstance(a, Maps) else a.size == a.shape[axis]


def _other(a: Maps, axis: int) -> int:
    """Where an axis of the value stands in [maps, *rest]."""
    return axis + 1 if axis < a.axis else axis


def _same_axis(old: Shape, axis: int, new: Shape) -> int | None:
    """The axis of the new shape that is an axis of the old one, untouched."""
    before, n = math.prod(old[:axis]), 1
    for i, size in enumerate(new):
        if n == before and size == old[axis]:
            return i
        n *= size
    return None


@lru_cache(maxsize=1024)
def elementwise(equation: str) -> bool:
    terms, result = equation.split("->")
    return terms == f"{result},{result}"
