"""Boolean values as the compiled kernel tells and hears of them: EMPTY or FULL everywhere; or axes along which there
are channels, a bit for each, what is stored on every axis, the numbers of the channels' maps, in the order of the axes,
and the table of these maps, which are over the other axes, or None where there are only empty and full ones."""

from __future__ import annotations

import math

import numpy as np

from effsparse_cli.graph.primitives import Shape
from effsparse_cli.kernel.bits import unpack, words_of
from effsparse_cli.kernel.plain import EMPTY, FULL
from effsparse_cli.paths.maps import Maps, Value, settle, uniform

Form = int | tuple[int, Shape, bytes, bytes | None]


def form_of(value: Value) -> Form:
    if isinstance(value, Maps):
        n = len(value.numbers)
        sizes = (*value.rest[: value.axis], n, *value.rest[value.axis :])
        return int(n > 1) << value.axis, sizes, value.numbers.tobytes(), value.table.tobytes()
    value = settle(value)
    if value.size == 1:
        return FULL if value.item() else EMPTY
    axes = sum(1 << axis for axis, n in enumerate(value.shape) if n > 1)
    return axes, value.shape, value.astype(np.int32).tobytes(), None


def value_from(form: Form, rank: int) -> Value:
    if isinstance(form, int):
        return uniform(form == FULL, rank)
    bits, sizes, data, table = form
    axes = [axis for axis in range(rank) if bits >> axis & 1]
    numbers = np.frombuffer(data, np.int32)
    if table is None:
        return numbers.astype(bool).reshape(sizes)
    # Without channels, any axis of size one has one.
    along = axes if len(axes) == 1 else [axis for axis, n in enumerate(sizes) if n == 1 and not axes][:1]
    rest = tuple(n for axis, n in enumerate(sizes) if axis not in (along or axes))
    maps = np.frombuffer(table, np.uint64).reshape(-1, words_of(math.prod(rest)))
    if along:
        return Maps(along[0], numbers, maps, rest)
    whole = unpack(maps, math.prod(rest))[numbers].reshape(*(sizes[axis] for axis in axes), *rest)
    others = [axis for axis in range(rank) if axis not in axes]
    return whole.transpose(np.argsort([*axes, *others]))
