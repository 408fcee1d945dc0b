"""QONNX: quantizers, which are elementwise, and channels-last forms of three operators. Whether a quantizer keeps zero
depends on its parameters, so it is evaluated at zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, Value
from effsparse_cli.formats.onnx.lowering.weights import is_weight
from effsparse_cli.formats.onnx.operators import OPERATORS, QONNX, Lower, MisfitError, NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.ops.quantized.qonnx_values import quantize
from effsparse_cli.formats.onnx.tensors.stored import Array, nonzero

CHANNELS_LAST = "qonnx.custom_op.channels_last"
SCALE = 1


def quantizer(*names: str, **facts: Any) -> Callable[[Lower], Lower]:
    """Add quantizers to the table, with the facts that all of them share."""
    shared = {"primitives": "Join", "constants": "first", "can_follow": _can_follow, "evaluate": quantize}
    return operator(*names, domain=QONNX, **shared, **facts)


def _can_follow(c: OpCall, data: ConstantValue) -> bool:
    # Evaluate one element, to fail now and not when the values are needed.
    quantize(c.node, [np.zeros((1,) * len(data.shape), np.float32), *(c.array(i) for i in range(1, len(c.inputs)))])
    return np.broadcast_shapes(*(c.shape(i) for i in range(len(c.inputs)))) == data.shape


@quantizer("Quant", "IntQuant", "BipolarQuant", positions="quantizer")
@quantizer("Trunc", "FloatQuant")
def lower_quantizer(c: OpCall) -> Result:
    live = [i for i in range(1, len(c.inputs)) if c.is_live(i)]
    if live and is_weight(c.get(0)):
        raise NotLoweredError("it quantizes a weight by numbers that are computed from the model's input")
    x = c.x()
    try:
        shape = np.broadcast_shapes(*(c.shape(i) for i in range(len(c.inputs))))
    except ValueError:
        raise MisfitError("its parameters do not fit its input") from None
    x = c.b.expand(x, shape)
    if any(i != SCALE for i in live) or (live and c.node.op_type == "Trunc"):
        return c.b.join(x, *(c.x(i) for i in live), keeps_zero=False)
    y = c.b.divide(x, c.x(SCALE)) if live else x
    constant = nonzero(_at_zero(c, len(shape)))
    if constant.all():
        return c.b.join(y, keeps_zero=False)
    return c.b.join(y, c.b.constant(constant)) if constant.any() else c.b.join(y)


def _at_zero(c: OpCall, rank: int) -> Array:
    """Return the quantizer's value at zero. Whether that is zero does not depend on a live scale."""
    zeros, one = np.zeros((1,) * rank, np.float32), np.ones((), np.float32)
    parameters = [one if c.is_live(i) else c.array(i) for i in range(1, len(c.inputs))]
    return quantize(c.node, [zeros, *parameters])[0]


@operator("Conv", "MaxPool", "BatchNormalization", domain=CHANNELS_LAST, primitives="Permute, the operator, Permute")
def channels_last(c: OpCall) -> Result:
    """Data has its channels last, and so has the kernel of a convolution: [out, *kernel, in]."""
    node = NodeProto()
    node.CopyFrom(c.node)
    node.domain = ""
    rank = len(c.shape())
    if rank < 3:
        raise MisfitError(f"an input of shape {list(c.shape())} has no channels to move")
    first = (0, rank - 1, *range(1, rank - 1))
    moved = 2 if node.op_type == "Conv" else 1
    inputs = [*(_permuted(c, value, first) for value in c.inputs[:moved]), *c.inputs[moved:]]
    results = OPERATORS["", node.op_type].lower(OpCall(c.scope, node, inputs, c.position))
    several = results if isinstance(results, Sequence) else [results]
    last = (0, *range(2, rank), 1)
    return [None if y is None else c.b.permute(y if isinstance(y, int) else c.node_of(y), last) for y in several]


def _permuted(c: OpCall, value: Value | None, order: tuple[int, ...]) -> Value | None:
    if isinstance(value, ConstantValue):
        return value.moved(lambda a: a.transpose(order))
    return LiveValue(c.b.permute(c.node_of(value), order)) if value is not None else None
