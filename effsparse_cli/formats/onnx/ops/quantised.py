"""Quantised tensors between float ones: a quantised value stands for the float it was made of, so a zero is the
zero point. Live values remember that they are shifted until something takes them as plain numbers."""

from __future__ import annotations

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.stored import nonzero
from effsparse_cli.formats.onnx.table import Result, lowers
from effsparse_cli.formats.onnx.values import Live


def shift_of(c: Call, i: int) -> bool:
    """Is the zero point in input i something else than zero, or not known to be zero?"""
    return c.has(i) and (c.is_live(i) or bool(nonzero(c.array(i)).any()))


@lowers("QuantizeLinear", primitive="Join", folding="first")
def quantize(c: Call) -> Result:
    """A live scale is one more input; a scale of infinity is no scale."""
    live = [_beside(c, i) for i in (1, 2) if c.is_live(i)]
    return Live(c.b.join(c.x(), *live), shifted=shift_of(c, 2))


@lowers("DequantizeLinear", primitive="Join", folding="first")
def dequantize(c: Call) -> Result:
    x = c.value(0)
    live = [_beside(c, i) for i in (1, 2) if c.is_live(i)]
    if isinstance(x, Live) and x.shifted:
        return c.b.join(x.node, *live)
    # A number that was never quantised minus a zero point is no zero.
    return c.b.join(c.x(), *live, keeps_zero=not shift_of(c, 2))


def _beside(c: Call, i: int) -> int:
    """A live scale or zero point, per tensor or along the axis."""
    node, shape = c.x(i), c.shape(i)
    if len(shape) == 1 and shape[0] != 1 and len(c.shape()) > 1:
        axis = c.attr("axis", 1) % len(c.shape())
        return c.b.reshape(node, (*shape, *(1,) * (len(c.shape()) - axis - 1)))
    if len(shape) == len(c.shape()) and shape != c.shape() and c.attr("block_size", 0):
        return c.b.reduce(node, None, keepdim=False)
    return c.b.reshape(node, ()) if shape == (1,) else node


@lowers("DynamicQuantizeLinear", primitive="Mix, Join", folding="value")
def dynamic_quantize(c: Call) -> Result:
    """Scale and zero point are made from the whole tensor, but a zero stays what the zero point stands for."""
    x = c.x()
    scale = c.b.reduce(x, None, keepdim=False, keeps_zero=False)
    return [Live(c.b.times(x, scale), shifted=True), scale, scale]
