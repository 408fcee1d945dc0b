"""Quantization and dequantization. A quantized value represents a float, so its zero is the zero point. Live values are
marked as shifted until something uses them as ordinary numbers."""

from __future__ import annotations

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue
from effsparse_cli.formats.onnx.lowering.zero_points import broadcast_zero_points, note_zero_points
from effsparse_cli.formats.onnx.operators import Result, operator
from effsparse_cli.formats.onnx.tensors.stored import nonzero


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
    primitives="Join",
    constants="first",
    can_follow=_note_parameters,
    positions="quantized",
    stays_in_file=True,
)
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
