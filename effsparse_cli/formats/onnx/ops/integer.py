"""Operators on quantised tensors themselves: products take their zero points off first, so weights and activations
count from there, per channel too."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.fold import spread
from effsparse_cli.formats.onnx.ops.contraction import add_bias, multiply
from effsparse_cli.formats.onnx.ops.convolution import add_channel_bias, convolve
from effsparse_cli.formats.onnx.ops.pooling import pool_node
from effsparse_cli.formats.onnx.ops.quantised import shift_of
from effsparse_cli.formats.onnx.table import MICROSOFT, Result, lowers
from effsparse_cli.formats.onnx.values import Known, Live, minus
from effsparse_cli.graph.einsum import matmul_equation


def centred(c: Call, i: int, zero_point: int | None, axis: int = -1) -> Live | Known:
    """Input i minus its zero point, which is one number or one for each position along `axis`."""
    value = c.value(i)
    shifted = zero_point is not None and shift_of(c, zero_point)
    if isinstance(value, Live):
        if value.shifted:
            return Live(value.node)
        live = (
            [c.b.reduce(c.x(zero_point), None, keepdim=False)]
            if zero_point is not None and c.is_live(zero_point)
            else []
        )
        return Live(c.b.join(value.node, *live, keeps_zero=not shifted))
    if not shifted or zero_point is None:
        return value
    if c.is_live(zero_point):
        return value.altered(lambda: np.ones(value.shape, np.int32))
    return minus(value, spread(c.array(zero_point), value.shape, axis))


def scaled(c: Call, y: int, *inputs: int) -> int:
    """Live scales are inputs like any other; a scale is no zero."""
    for i in inputs:
        if c.is_live(i):
            y = c.b.times(y, c.b.join(c.b.reduce(c.x(i), None, keepdim=False), keeps_zero=False))
    return y


def requantised(c: Call, y: int, scale: int, zero_point: int) -> Live:
    y = scaled(c, y, scale)
    if c.is_live(zero_point):
        y = c.b.join(y, c.b.reduce(c.x(zero_point), None, keepdim=False))
    return Live(y, shifted=shift_of(c, zero_point))


@lowers("QLinearConv", primitive="Contract")
def qlinear_conv(c: Call) -> Result:
    x = c.node_of(centred(c, 0, 2))
    y = scaled(c, convolve(c, x, centred(c, 3, 5, 0)), 1, 4)
    return requantised(c, add_channel_bias(c, y, c.get(8)), 6, 7)


@lowers("ConvInteger", primitive="Contract")
def conv_integer(c: Call) -> Result:
    x = c.node_of(centred(c, 0, 2 if c.has(2) else None))
    return convolve(c, x, centred(c, 1, 3 if c.has(3) else None, 0))


@lowers("QLinearMatMul", primitive="Contract by a weight, Product otherwise")
def qlinear_matmul(c: Call) -> Result:
    equation = matmul_equation(len(c.shape(0)), len(c.shape(3)))
    y = multiply(c, equation, centred(c, 0, 2, -2), centred(c, 3, 5, -1), "linear")
    return requantised(c, scaled(c, y, 1, 4), 6, 7)


@lowers("MatMulInteger", primitive="Contract by a weight, Product otherwise", folding="value")
def matmul_integer(c: Call) -> Result:
    return _integer_product(c, (0, 2), (1, 3))


def _integer_product(c: Call, a: tuple[int, int], b: tuple[int, int]) -> int:
    equation = matmul_equation(len(c.shape(a[0])), len(c.shape(b[0])))
    left = centred(c, a[0], a[1] if c.has(a[1]) else None, -2)
    right = centred(c, b[0], b[1] if c.has(b[1]) else None, -1)
    return multiply(c, equation, left, right, "linear")


@lowers("MatMulIntegerToFloat", domain=MICROSOFT, primitive="Contract by a weight, Product otherwise")
def matmul_integer_to_float(c: Call) -> Result:
    """a, b, their scales, their zero points, bias."""
    return add_bias(c, scaled(c, _integer_product(c, (0, 4), (1, 5)), 2, 3), c.get(6))


@lowers("DynamicQuantizeMatMul", domain=MICROSOFT, primitive="Mix, Contract")
def dynamic_quantize_matmul(c: Call) -> Result:
    """A float, b quantised: a is quantised by a scale from all of its elements."""
    x = c.x()
    spread = Live(c.b.times(x, c.b.reduce(x, None, keepdim=False, keeps_zero=False)))
    equation = matmul_equation(len(c.shape(0)), len(c.shape(1)))
    y = multiply(c, equation, spread, centred(c, 1, 3 if c.has(3) else None, -1), "linear")
    return add_bias(c, scaled(c, y, 2), c.get(4))


@lowers("QGemm", domain=MICROSOFT, primitive="Contract by a weight, Product otherwise")
def qgemm(c: Call) -> Result:
    flips = bool(c.attr("transA", 0)), bool(c.attr("transB", 0))
    weight = centred(c, 3, 5, 0 if flips[1] else 1)
    y = multiply(c, matmul_equation(2, 2, *flips), centred(c, 0, 2), weight, "linear")
    y = add_bias(c, scaled(c, y, 1, 4), c.get(6))
    return requantised(c, y, 7, 8) if c.has(7) else y


@lowers("QLinearAdd", "QLinearMul", domain=MICROSOFT, primitive="Join or Product")
def qlinear_binary(c: Call) -> Result:
    a, b = c.node_of(centred(c, 0, 2 if c.has(2) else None)), c.node_of(centred(c, 3, 5 if c.has(5) else None))
    y = c.b.join(a, b) if c.node.op_type == "QLinearAdd" else c.b.times(a, b)
    return requantised(c, y, 6, 7)


@lowers("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", domain=MICROSOFT, primitive="Join or Mix")
def qlinear_unary(c: Call) -> Result:
    x = c.node_of(centred(c, 0, 2 if c.has(2) else None))
    if c.node.op_type == "QLinearSoftmax":
        rank = len(c.shape())
        axis = c.attr("axis", -1) % rank
        y = c.b.mix(x, range(axis, rank) if c.attr("opset", 13) < 13 else (axis,), keeps_zero=False)
    else:
        y = c.b.join(x, keeps_zero=c.node.op_type == "QLinearLeakyRelu")
    return requantised(c, y, 3, 4)


@lowers("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT, primitive="Window or Mix")
def qlinear_pool(c: Call) -> Result:
    x = c.node_of(centred(c, 0, 2 if c.has(2) else None))
    rank, last = len(c.shape()), c.attr("channels_last", 0)
    x = c.b.permute(x, (0, rank - 1, *range(1, rank - 1))) if last else x
    everywhere = c.node.op_type == "QLinearGlobalAveragePool"
    y = c.b.reduce(x, range(2, rank), keepdim=True) if everywhere else pool_node(c, x)
    y = c.b.permute(y, (0, *range(2, rank), 1)) if last else y
    return requantised(c, y, 3, 4)


@lowers("QLinearConcat", domain=MICROSOFT, primitive="Concat")
def qlinear_concat(c: Call) -> Result:
    """Scale and zero point of the result, then tensor, scale and zero point of each part."""
    parts = [c.node_of(centred(c, i, i + 2)) for i in range(2, len(c.inputs), 3)]
    return requantised(c, c.b.concat(parts, c.attr("axis")), 0, 1)
