"""Read a stored tensor in the shape in which an operator uses it, and write results for its elements back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Ints, Shape, View


def covers_once(view: View, shape: Shape, size: int) -> bool:
    """Whether the view has every stored element exactly once, so that counts need no writing back."""
    if view.index is not None or math.prod(shape) != size:
        return False
    if view.strides is None:
        return True
    expected = 1
    for stride, n in sorted((s, n) for s, n in zip(view.strides, shape, strict=True) if n > 1):
        if stride != expected:
            return False
        expected *= n
    return view.offset == 0


def arrange(stored: NDArray[Any], view: View, shape: Shape, zero: float) -> NDArray[Any]:
    """Return the stored elements in the operator's shape, with `zero` where the view has none."""
    flat = np.ascontiguousarray(stored).reshape(-1)
    if view.index is not None:
        return np.where(view.index >= 0, flat[np.maximum(view.index, 0)], zero)
    if view.strides is None:
        return flat.reshape(shape)
    strides = [s * flat.itemsize for s in view.strides]
    return np.lib.stride_tricks.as_strided(flat[view.offset :], shape, strides, writeable=False)


def scatter(found: Bools, view: View, shape: Shape, into: Bools) -> None:
    """Set the elements of the flat array `into` that `found` has set in the operator's shape."""
    if view.strides is None and view.index is None:
        into |= found.reshape(-1)
    elif view.strides is not None and _apart(view.strides, shape):
        # Avoid a table of positions, which takes eight bytes per element.
        there = np.lib.stride_tricks.as_strided(into[view.offset :], shape, view.strides)
        there |= found.reshape(shape)
    else:
        into[positions(view, shape, into.size)[found.reshape(shape)]] = True


def _apart(strides: tuple[int, ...], shape: Shape) -> bool:
    """Whether strides lead to each element at most once."""
    reach = 0
    for stride, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += (n - 1) * stride
    return True


def collect(found: NDArray[Any], view: View, shape: Shape, into: NDArray[Any], sum_: np.ufunc) -> None:
    """Add the amounts in the operator's shape to the flat array `into`, with the given sum."""
    if view.strides is None and view.index is None:
        sum_(into, found.reshape(-1), out=into)
        return
    where = positions(view, shape, into.size).reshape(-1)
    sum_.at(into, where[where >= 0], found.reshape(-1)[where >= 0])


def positions(view: View, shape: Shape, size: int) -> Ints:
    """Return the flat stored positions in the operator's shape, -1 for a literal zero."""
    if view.index is not None:
        return view.index
    if view.strides is None:
        return np.arange(size).reshape(shape)
    steps = [np.arange(n) * s for n, s in zip(shape, view.strides, strict=True)]
    return sum(np.ix_(*steps), start=np.array(view.offset)) if steps else np.array(view.offset)
