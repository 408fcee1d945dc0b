"""Operators on quantized tensors. Zero points are subtracted first, so weights and activations are relative to them,
also per channel."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue
from effsparse_cli.formats.onnx.lowering.zero_points import broadcast_zero_points, subtract_zero_points
from effsparse_cli.formats.onnx.operators import MICROSOFT, Result, operator
from effsparse_cli.formats.onnx.ops.contraction import add_bias, matmul_cost, matmul_extent, multiply
from effsparse_cli.formats.onnx.ops.convolution import add_channel_bias, convolve, window_extent
from effsparse_cli.formats.onnx.ops.pooling import pool_node
from effsparse_cli.formats.onnx.ops.quantized.linear import shift_of
from effsparse_cli.graph.equations import matmul_equation


def centered(c: OpCall, i: int, zero_point: int | None, axis: int = -1) -> LiveValue | ConstantValue:
    """Return input i minus its zero point, which is one number or one for each position along `axis`."""
    value = c.value(i)
    shifted = zero_point is not None and shift_of(c, zero_point)
    if isinstance(value, LiveValue):
        if value.shifted:
            return LiveValue(value.node)
        live = (
            [c.b.reduce(c.x(zero_point), None, keepdim=False)]
            if zero_point is not None and c.is_live(zero_point)
            else []
        )
        return LiveValue(c.b.join(value.node, *live, keeps_zero=not shifted))
    if not shifted or zero_point is None:
        return value
    if c.is_live(zero_point):
        return value.altered(lambda: np.ones(value.shape, np.int32))
    return subtract_zero_points(value, broadcast_zero_points(c.array(zero_point), value.shape, axis))


def scaled(c: OpCall, y: int, *inputs: int) -> int:
    """Multiply by live scales, which are never zero."""
    for i in inputs:
        if c.is_live(i):
            y = c.b.times(y, c.b.join(c.b.reduce(c.x(i), None, keepdim=False), keeps_zero=False))
    return y


def requantized(c: OpCall, y: int, scale: int, zero_point: int) -> LiveValue:
    y = scaled(c, y, scale)
    if c.is_live(zero_point):
        y = c.b.join(y, c.b.reduce(c.x(zero_point), None, keepdim=False))
    return LiveValue(y, shifted=shift_of(c, zero_point))


@operator("QLinearConv", primitives="Contract", extent=window_extent)
def qlinear_conv(c: OpCall) -> Result:
    x = c.node_of(centered(c, 0, 2))
    y = scaled(c, convolve(c, x, centered(c, 3, 5, 0)), 1, 4)
    return requantized(c, add_channel_bias(c, y, c.get(8)), 6, 7)


@operator("ConvInteger", primitives="Contract", extent=window_extent)
def conv_integer(c: OpCall) -> Result:
    x = c.node_of(centered(c, 0, 2 if c.has(2) else None))
    return convolve(c, x, centered(c, 1, 3 if c.has(3) else None, 0))


@operator("QLinearMatMul", primitives="Contract by a weight, Product otherwise")
def qlinear_matmul(c: OpCall) -> Result:
    equation = matmul_equation(len(c.shape(0)), len(c.shape(3)))
    y = multiply(c, equation, centered(c, 0, 2, -2), centered(c, 3, 5, -1), "linear")
    return requantized(c, scaled(c, y, 1, 4), 6, 7)


@operator(
    "MatMulInteger",
    primitives="Contract by a weight, Product otherwise",
    constants="computed",
    extent=matmul_extent,
    multiplications=matmul_cost,
)
def matmul_integer(c: OpCall) -> Result:
    return _integer_product(c, (0, 2), (1, 3))


def _integer_product(c: OpCall, a: tuple[int, int], b: tuple[int, int]) -> int:
    equation = matmul_equation(len(c.shape(a[0])), len(c.shape(b[0])))
    left = centered(c, a[0], a[1] if c.has(a[1]) else None, -2)
    right = centered(c, b[0], b[1] if c.has(b[1]) else None, -1)
    return multiply(c, equation, left, right, "linear")


@operator("MatMulIntegerToFloat", domain=MICROSOFT, primitives="Contract by a weight, Product otherwise")
def matmul_integer_to_float(c: OpCall) -> Result:
    """Inputs: a, b, their scales, their zero points, bias."""
    return add_bias(c, scaled(c, _integer_product(c, (0, 4), (1, 5)), 2, 3), c.get(6))


@operator("DynamicQuantizeMatMul", domain=MICROSOFT, primitives="Mix, Contract")
def dynamic_quantize_matmul(c: OpCall) -> Result:
    """a is a float tensor, which is quantized by a scale computed from all of its elements; b is quantized."""
    x = c.x()
    spread = LiveValue(c.b.times(x, c.b.reduce(x, None, keepdim=False, keeps_zero=False)))
    equation = matmul_equation(len(c.shape(0)), len(c.shape(1)))
    y = multiply(c, equation, spread, centered(c, 1, 3 if c.has(3) else None, -1), "linear")
    return add_bias(c, scaled(c, y, 2), c.get(4))


@operator("QGemm", domain=MICROSOFT, primitives="Contract by a weight, Product otherwise")
def qgemm(c: OpCall) -> Result:
    flips = bool(c.attr("transA", 0)), bool(c.attr("transB", 0))
    weight = centered(c, 3, 5, 0 if flips[1] else 1)
    y = multiply(c, matmul_equation(2, 2, *flips), centered(c, 0, 2), weight, "linear")
    y = add_bias(c, scaled(c, y, 1, 4), c.get(6))
    return requantized(c, y, 7, 8) if c.has(7) else y


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT, primitives="Join or Product")
def qlinear_binary(c: OpCall) -> Result:
    a, b = c.node_of(centered(c, 0, 2 if c.has(2) else None)), c.node_of(centered(c, 3, 5 if c.has(5) else None))
    y = c.b.join(a, b) if c.node.op_type == "QLinearAdd" else c.b.times(a, b)
    return requantized(c, y, 6, 7)


@operator("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", domain=MICROSOFT, primitives="Join or Mix")
def qlinear_unary(c: OpCall) -> Result:
    x = c.node_of(centered(c, 0, 2 if c.has(2) else None))
    if c.node.op_type == "QLinearSoftmax":
        rank = len(c.shape())
        axis = c.attr("axis", -1) % rank
        y = c.b.mix(x, range(axis, rank) if c.attr("opset", 13) < 13 else (axis,), keeps_zero=False)
    else:
        y = c.b.join(x, keeps_zero=c.node.op_type == "QLinearLeakyRelu")
    return requantized(c, y, 3, 4)


@operator("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT, primitives="Window or Mix")
def qlinear_pool(c: OpCall) -> Result:
    x = c.node_of(centered(c, 0, 2 if c.has(2) else None))
    rank, last = len(c.shape()), c.attr("channels_last", 0)
    x = c.b.permute(x, (0, rank - 1, *range(1, rank - 1))) if last else x
    everywhere = c.node.op_type == "QLinearGlobalAveragePool"
    y = c.b.reduce(x, range(2, rank), keepdim=True) if everywhere else pool_node(c, x)
    y = c.b.permute(y, (0, *range(2, rank), 1)) if last else y
    return requantized(c, y, 3, 4)


@operator("QLinearConcat", domain=MICROSOFT, primitives="Concat")
def qlinear_concat(c: OpCall) -> Result:
    """Inputs: scale and zero point of the result, then tensor, scale and zero point of each part."""
    parts = [c.node_of(centered(c, i, i + 2)) for i in range(2, len(c.inputs), 3)]
    return requantized(c, c.b.concat(parts, c.attr("axis")), 0, 1)
