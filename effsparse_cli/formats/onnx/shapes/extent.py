"""Sizes of an op call's result, before anything is computed. Numbers that the model computes from its input are not
known here, and count as 1."""

from __future__ import annotations

import math

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, SequenceValue
from effsparse_cli.formats.onnx.operators import Extent
from effsparse_cli.graph.primitives import Shape


def result_extent(c: OpCall, broadcast: bool = False) -> Extent:
    """Return the sizes of the largest result. Values that make no sense are left to the operator itself.

    Without an `extent` function, an operator's result is as large as its largest input, or (`broadcast`) as its
    inputs together.
    """
    try:
        if c.operator.extent is not None:
            return [max(int(n), 0) for n in c.operator.extent(c)]
        shapes = input_shapes(c)
        return np.broadcast_shapes(*shapes) if broadcast else max(shapes, key=math.prod, default=())
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError):
        return ()


def input_shapes(c: OpCall) -> list[Shape]:
    return [c.shape_of(v) for v in c.inputs if v is not None and not isinstance(v, SequenceValue)]


def few_ints(c: OpCall, i: int) -> list[int]:
    """Return the numbers of input i, if they are known and few."""
    value = c.get(i)
    if not isinstance(value, ConstantValue) or math.prod(value.shape) > 1 << 16:
        return []
    return [int(n) for n in value.array.reshape(-1)]
