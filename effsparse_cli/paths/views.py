"""Reading a stored tensor as an operator arranges it, and writing back what was found for each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Ints, Shape, View


def covers_once(view: View, shape: Shape, size: int) -> bool:
    """Does the view hold every stored element exactly once? Then counts need no writing back."""
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
    """The stored tensor's elements in the shape that the operator uses; `zero` where nothing stands."""
    flat = np.ascontiguousarray(stored).reshape(-1)
    if view.index is not None:
        return np.where(view.index >= 0, flat[np.maximum(view.index, 0)], zero)
    if view.strides is None:
        return flat.reshape(shape)
    strides = [s * flat.itemsize for s in view.strides]
    return np.lib.stride_tricks.as_strided(flat[view.offset :], shape, strides, writeable=False)


def scatter(found: Bools, view: View, shape: Shape, into: Bools) -> None:
    """Marks in the flat array `into` every stored element that `found` marks in the operator's shape."""
    if view.strides is None and view.index is None:
        into |= found.reshape(-1)
    elif view.strides is not None and _apart(view.strides, shape):
        # Without a table of positions, which takes eight bytes for each element.
        there = np.lib.stride_tricks.as_strided(into[view.offset :], shape, view.strides)
        there |= found.reshape(shape)
    else:
        into[positions(view, shape, into.size)[found.reshape(shape)]] = True


def _apart(strides: tuple[int, ...], shape: Shape) -> bool:
    """Do strides lead to every element at most once?"""
    reach = 0
    for stride, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += (n - 1) * stride
    return True


def collect(found: NDArray[Any], view: View, shape: Shape, into: NDArray[Any], sum_: np.ufunc) -> None:
    """Adds amounts found in the operator's shape to the flat array `into`, by the sum that is given."""
    if view.strides is None and view.index is None:
        sum_(into, found.reshape(-1), out=into)
        return
    where = positions(view, shape, into.size).reshape(-1)
    sum_.at(into, where[where >= 0], found.reshape(-1)[where >= 0])


def positions(view: View, shape: Shape, size: int) -> Ints:
    """Flat stored positions in the operator's shape; -1 (a literal zero) is never marked as found."""
    if view.index is not None:
        return view.index
    if view.strides is None:
        return np.arange(size).reshape(shape)
    steps = [np.arange(n) * s for n, s in zip(shape, view.strides, strict=True)]
    return sum(np.ix_(*steps), start=np.array(view.offset)) if steps else np.array(view.offset)
