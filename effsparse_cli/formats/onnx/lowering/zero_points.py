"""Zero points of stored tensors: the numbers that stand for zero in quantized weights."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.lowering.values import ConstantValue
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.graph.primitives import Shape


def note_zero_points(value: ConstantValue, points: Array) -> None:
    """Record the zero points of the stored tensor of a constant; `points` broadcast to the constant."""
    if value.origin is not None and value.origin.stored is not None:
        value.origin.stored.zero_points.append((value.origin, points))


def subtract_zero_points(value: ConstantValue, points: Array) -> ConstantValue:
    """Return a constant relative to its zero points, which are recorded."""
    note_zero_points(value, points)
    return value.altered(lambda: value.array.astype(np.int64) - points)


def broadcast_zero_points(points: Array, shape: Shape, axis: int, block: int = 0) -> Array:
    """Broadcast zero points (one for all, one per position of an axis, or one per block along it) to a shape."""
    wide = points.astype(np.int64)
    if wide.size == 1:
        return np.broadcast_to(wide.reshape(()), shape)
    if block:
        return np.repeat(wide, block, axis)[tuple(slice(n) for n in shape)]
    return np.broadcast_to(wide.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]), shape)
