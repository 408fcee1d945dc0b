"""Linear quantization. A quantized value represents a float, so its zero is the zero point, also per channel. Operators
subtract zero points first; live values are marked as shifted until something uses them as ordinary numbers."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue
from effsparse_cli.formats.onnx.lowering.weights import broadcast_zero_points, note_zero_points, subtract_zero_points
from effsparse_cli.formats.onnx.operators import MICROSOFT, Result, operator
from effsparse_cli.formats.onnx.ops.contraction import BY_WEIGHT, add_bias, matmul_values, multiply, product_of_matrices
from effsparse_cli.formats.onnx.ops.convolution import add_channel_bias, convolve, pool_node, window_extent
from effsparse_cli.formats.onnx.tensors.stored import nonzero
from effsparse_cli.graph.equations import matmul_equation


def shift_of(c: OpCall, i: int) -> bool:
    """Whether the zero point in input i is not zero, or not known to be zero."""
    return c.has(i) and (c.is_live(i) or bool(nonzero(c.array(i)).any()))


@operator("QuantizeLinear", primitives="Join", constants="first", positions="quantized")
def quantize(c: OpCall) -> Result:
    """A live scale is one more input. Scales are not infinite."""
    live = [_beside(c, i) for i in (1, 2) if c.is_live(i)]
    return LiveValue(c.b.join(c.x(), *live), shifted=shift_of(c, 2))


def _note_parameters(c: OpCall, data: ConstantValue) -> bool:
    if c.has(2):
        note_zero_points(
            data, broadcast_zero_points(c.array(2), data.shape, c.attr("axis", 1), c.attr("block_size", 0))
        )
    return True


@operator(
    "DequantizeLinear",
    primitives="Join", constants="first", can_follow=_note_parameters, positions="quantized", stays_in_file=True,
)  # fmt: skip
def dequantize(c: OpCall) -> Result:
    x = c.value(0)
    live = [_beside(c, i) for i in (1, 2) if c.is_live(i)]
    if isinstance(x, LiveValue) and x.shifted:
        return c.b.join(x.node, *live)
    # A number that was not quantized, minus a zero point, is not zero.
    return c.b.join(c.x(), *live, keeps_zero=not shift_of(c, 2))


def _beside(c: OpCall, i: int) -> int:
    """Return a live scale or zero point, per tensor or along the axis."""
    node, shape = c.x(i), c.shape(i)
    if len(shape) == 1 and shape[0] != 1 and len(c.shape()) > 1:
        axis = c.attr("axis", 1) % len(c.shape())
        return c.b.reshape(node, (*shape, *(1,) * (len(c.shape()) - axis - 1)))
    if len(shape) == len(c.shape()) and shape != c.shape() and c.attr("block_size", 0):
        return c.b.reduce(node, None, keepdim=False)
    return c.b.reshape(node, ()) if shape == (1,) else node


@operator("DynamicQuantizeLinear", primitives="Mix, Join", constants="computed")
def dynamic_quantize(c: OpCall) -> Result:
    """Scale and zero point are computed from the whole tensor, but zero still represents zero."""
    x = c.x()
    scale = c.b.reduce(x, None, keepdim=False, keeps_zero=False)
    return [LiveValue(c.b.times(x, scale), shifted=True), scale, scale]


def centered(c: OpCall, i: int, zero_point: int, axis: int = -1) -> LiveValue | ConstantValue:
    """Return input i minus its zero point (0 if absent), which is one number or one for each position along `axis`."""
    value, shifted = c.value(i), shift_of(c, zero_point)
    if isinstance(value, LiveValue):
        if value.shifted:
            return LiveValue(value.node)
        live = [c.b.reduce(c.x(zero_point), None, keepdim=False)] if c.is_live(zero_point) else []
        return LiveValue(c.b.join(value.node, *live, keeps_zero=not shifted))
    if not shifted:
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
    return convolve(c, c.node_of(centered(c, 0, 2)), centered(c, 1, 3, 0))


@operator("QLinearMatMul", primitives=BY_WEIGHT)
def qlinear_matmul(c: OpCall) -> Result:
    y = matmul_values(c, centered(c, 0, 2, -2), centered(c, 3, 5))
    return requantized(c, scaled(c, y, 1, 4), 6, 7)


@product_of_matrices("MatMulInteger")
def matmul_integer(c: OpCall) -> Result:
    return matmul_values(c, centered(c, 0, 2, -2), centered(c, 1, 3))


@operator("MatMulIntegerToFloat", domain=MICROSOFT, primitives=BY_WEIGHT)
def matmul_integer_to_float(c: OpCall) -> Result:
    """Inputs: a, b, their scales, their zero points, bias."""
    y = matmul_values(c, centered(c, 0, 4, -2), centered(c, 1, 5))
    return add_bias(c, scaled(c, y, 2, 3), c.get(6))


@operator("DynamicQuantizeMatMul", domain=MICROSOFT, primitives="Mix, Contract")
def dynamic_quantize_matmul(c: OpCall) -> Result:
    """a is a float tensor, which is quantized by a scale computed from all of its elements; b is quantized."""
    x = c.x()
    spread = LiveValue(c.b.times(x, c.b.reduce(x, None, keepdim=False, keeps_zero=False)))
    return add_bias(c, scaled(c, matmul_values(c, spread, centered(c, 1, 3)), 2), c.get(4))


@operator("QGemm", domain=MICROSOFT, primitives=BY_WEIGHT)
def qgemm(c: OpCall) -> Result:
    flips = bool(c.attr("transA", 0)), bool(c.attr("transB", 0))
    weight = centered(c, 3, 5, 0 if flips[1] else 1)
    y = multiply(c, matmul_equation(2, 2, *flips), centered(c, 0, 2), weight)
    y = add_bias(c, scaled(c, y, 1, 4), c.get(6))
    return requantized(c, y, 7, 8) if c.has(7) else y


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT, primitives="Join or Product")
def qlinear_binary(c: OpCall) -> Result:
    a, b = c.node_of(centered(c, 0, 2)), c.node_of(centered(c, 3, 5))
    y = c.b.join(a, b) if c.node.op_type == "QLinearAdd" else c.b.times(a, b)
    return requantized(c, y, 6, 7)


@operator("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", domain=MICROSOFT, primitives="Join or Mix")
def qlinear_unary(c: OpCall) -> Result:
    x = c.node_of(centered(c, 0, 2))
    if c.node.op_type == "QLinearSoftmax":
        rank = len(c.shape())
        axis = c.attr("axis", -1) % rank
        y = c.b.mix(x, range(axis, rank) if c.attr("opset", 13) < 13 else (axis,), keeps_zero=False)
    else:
        y = c.b.join(x, keeps_zero=c.node.op_type == "QLinearLeakyRelu")
    return requantized(c, y, 3, 4)


@operator("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT, primitives="Window or Mix")
def qlinear_pool(c: OpCall) -> Result:
    x = c.node_of(centered(c, 0, 2))
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
