"""Boolean values as the compiled kernel tells and hears of them: EMPTY or FULL everywhere; axis, numbers, table and
rest as in Maps; or, where neither can say it, the array itself."""

from __future__ import annotations

import numpy as np

from effsparse_cli.graph.primitives import Bools, Shape
from effsparse_cli.kernel.bits import words_of
from effsparse_cli.kernel.plain import EMPTY, FULL
from effsparse_cli.paths.maps import Maps, Value, plain, settle, uniform

Form = int | tuple[int, bytes, bytes | None, Shape] | Bools


def form_of(value: Value) -> Form:
    if isinstance(value, Maps):
        return value.axis, value.numbers.tobytes(), value.table.tobytes(), value.rest
    value = settle(value)
    if value.size == 1:
        return FULL if value.item() else EMPTY
    (axis, *others) = [axis for axis, n in enumerate(value.shape) if n > 1]
    return value if others else (axis, value.astype(np.int32).tobytes(), None, ())


def value_from(form: Form, rank: int) -> Value:
    if isinstance(form, int):
        return uniform(form == FULL, rank)
    if not isinstance(form, tuple):
        return form
    axis, data, table, rest = form
    numbers = np.frombuffer(data, np.int32)
    if table is None:
        return plain(numbers.astype(bool), axis, rank)
    words = np.frombuffer(table, np.uint64).reshape(-1, words_of(int(np.prod(rest))))
    return Maps(axis, numbers, words, rest)
