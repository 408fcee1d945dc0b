"""Arrays of the boolean semiring (or, and): values by channels (Maps) where few maps say all, plain arrays elsewhere.

Whatever leaves the channels alone is done to the few distinct maps; what does not is done to the whole array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce

import numpy as np

from effsparse_cli.graph.primitives import Bools, Ints, Shape, Taps
from effsparse_cli.paths.lattice import DENSE
from effsparse_cli.paths.maps import (
    EMPTY,
    FULL,
    Maps,
    Numbers,
    Space,
    Value,
    change,
    dense,
    join,
    plain,
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
            if term.size != 1:
                left.append(term)
            elif term.item():  # type: ignore[union-attr]
                return term
        if len(left) < 2:
            return left[0] if left else terms[0]
        maps = [term for term in left if isinstance(term, Maps)]
        if not maps:
            return settle(reduce(np.logical_or, map(dense, left)))
        if not all(_fits(term, maps[0].axis, maps[0].space) for term in left):
            return settle(reduce(np.logical_or, map(dense, left)))
        return _union(left, maps[0].axis, maps[0].space)

    def product(self, equation: str, a: Value, b: Value) -> Value:
        elementwise, result = _parse(equation)
        if elementwise:
            for one, other in ((a, b), (b, a)):
                if one.size == 1:
                    return other if one.item() else one  # type: ignore[union-attr]
            return _overlap(a, b)
        if a.size == b.size == 1:
            return uniform(a.item() and b.item(), len(result))  # type: ignore[union-attr]
        return settle(DENSE.product(equation, dense(a), dense(b)))

    def total(self, a: Value, axes: Sequence[int]) -> Value:
        if a.size == 1:
            return a
        if not isinstance(a, Maps):
            return settle(DENSE.total(a, axes))
        if a.axis in axes:
            return settle(DENSE.total(dense(a), axes))
        summed = [_other(a, axis) for axis in axes]
        if all(n == 1 or i in summed for i, n in enumerate(a.space.rest, 1)):
            return plain(a.numbers != EMPTY, a.axis, a.ndim)
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
            return Maps(axis, a.numbers, a.space)
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
        return join(axis, np.where(index >= 0, a.numbers[index], EMPTY), a.space)

    def put(self, a: Value, axis: int, index: Ints, size: int) -> Value:
        if not isinstance(a, Maps):
            return settle(DENSE.put(a, axis, index, size))
        if axis != a.axis:
            return change(a, lambda maps: DENSE.put(maps, _other(a, axis), index, size))
        inside = index >= 0
        where = index[inside]
        if len(np.unique(where)) < len(where):
            return settle(DENSE.put(dense(a), axis, index, size))
        numbers = np.zeros(size, np.intp)
        numbers[where] = a.numbers[inside]
        return join(axis, numbers, a.space)

    def concat(self, parts: Sequence[Value], axis: int, sizes: Sequence[int]) -> Value:
        if all(part is parts[0] for part in parts) and parts[0].size == 1:
            return parts[0]
        if not any(isinstance(part, Maps) for part in parts):
            return DENSE.concat([dense(part) for part in parts], axis, sizes)
        space = next(part.space for part in parts if isinstance(part, Maps))
        if not all(_fits(part, axis, space) for part in parts):
            return settle(DENSE.concat([dense(part) for part in parts], axis, sizes))
        return Maps(axis, np.concatenate([_numbers(part, n) for part, n in zip(parts, sizes, strict=True)]), space)

    def split(self, a: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        if not isinstance(a, Maps):
            return [a] * len(sizes) if a.shape[axis] == 1 else [settle(part) for part in DENSE.split(a, axis, sizes)]
        if a.axis != axis:
            return [settle(part) for part in DENSE.split(dense(a), axis, sizes)]
        ends = np.cumsum(sizes).tolist()
        return [join(axis, a.numbers[end - n : end], a.space) for end, n in zip(ends, sizes, strict=True)]

    def window(self, a: Value, axis: int, table: Taps) -> Value:
        if isinstance(a, Maps) and axis != a.axis:
            return change(a, lambda maps: DENSE.window(maps, _other(a, axis), table))
        return settle(DENSE.window(dense(a), axis, table))

    def unwindow(self, a: Value, axis: int, table: Taps, size: int) -> Value:
        if isinstance(a, Maps) and axis != a.axis:
            return change(a, lambda maps: DENSE.unwindow(maps, _other(a, axis), table, size))
        return settle(DENSE.unwindow(dense(a), axis, table, size))


BOOLEAN = BooleanArrays()


def _union(terms: Sequence[Value], axis: int, space: Space) -> Value:
    """Channel by channel: full where any is, else the map of the only one that has one, else the union of maps."""
    channels = max(len(term.numbers) if isinstance(term, Maps) else term.shape[axis] for term in terms)
    numbers = [_numbers(term, channels) for term in terms]
    joined = numbers[0]
    for more in numbers[1:]:
        both = ((joined > FULL) & (more > FULL) & (joined != more)).nonzero()[0]
        pairs = zip(joined[both].tolist(), more[both].tolist(), strict=True)
        joined = np.where((joined == FULL) | (more == FULL), FULL, np.maximum(joined, more))
        joined[both] = [space.number_of[space.maps[a] | space.maps[b]] for a, b in pairs]
    return join(axis, joined, space)


def _overlap(a: Value, b: Value) -> Value:
    maps = next((each for each in (a, b) if isinstance(each, Maps)), None)
    if maps is None or not all(_fits(each, maps.axis, maps.space) for each in (a, b)):
        return settle(np.logical_and(dense(a), dense(b)))
    channels = max(len(each.numbers) if isinstance(each, Maps) else each.shape[maps.axis] for each in (a, b))
    x, y = (_numbers(each, channels) for each in (a, b))
    joined = np.where((x == EMPTY) | (y == EMPTY), EMPTY, np.maximum(x, y))
    both = ((x > FULL) & (y > FULL) & (x != y)).nonzero()[0]
    space, pairs = maps.space, zip(x[both].tolist(), y[both].tolist(), strict=True)
    joined[both] = [space.number_of[space.maps[a] & space.maps[b]] for a, b in pairs]
    return join(maps.axis, joined, space)


def _fits(a: Value, axis: int, space: Space) -> bool:
    """Does it have channels along the axis, and no maps over other positions?"""
    return (a.axis == axis and a.space is space) if isinstance(a, Maps) else a.size == a.shape[axis]


def _numbers(a: Value, channels: int) -> Numbers:
    if isinstance(a, Maps):
        return a.numbers if len(a.numbers) == channels else np.broadcast_to(a.numbers, channels)
    return np.full(channels, int(a.item())) if a.size == 1 else a.reshape(-1).astype(np.intp)


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
def _parse(equation: str) -> tuple[bool, str]:
    """Is it elementwise, and what is the result?"""
    terms, result = equation.split("->")
    return terms == f"{result},{result}", result
