"""Convolutions: their geometry becomes tables of taps, their weight one Contract. A kernel that is computed from the
input becomes a product over gathered patches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, Value
from effsparse_cli.formats.onnx.lowering.weights import contract
from effsparse_cli.formats.onnx.operators import MICROSOFT, Contraction, Extent, MisfitError, Result, operator
from effsparse_cli.formats.onnx.ops.contraction import activate
from effsparse_cli.formats.onnx.shapes.extent import few_ints
from effsparse_cli.formats.onnx.tensors.stored import nonzero
from effsparse_cli.graph import windows
from effsparse_cli.graph.convolution import convolve_by_value
from effsparse_cli.graph.layers import affine
from effsparse_cli.graph.primitives import Shape, Taps


def same_padding(size: int, kernel: int, stride: int, dilation: int, upper: bool) -> tuple[int, int]:
    out = -(-size // stride)
    total = max((out - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


def paddings(
    c: OpCall, sizes: Shape, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the padding before and after, for each axis."""
    auto = c.attr("auto_pad", "NOTSET")
    n = len(sizes)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        every = zip(sizes, kernel, strides, dilations, strict=True)
        return [same_padding(s, k, t, d, auto == "SAME_UPPER") for s, k, t, d in every]
    pads = [0] * 2 * n if auto == "VALID" else c.attr("pads") or [0] * 2 * n
    return list(zip(pads[:n], pads[n:], strict=True))


def conv_windows(c: OpCall, sizes: Shape, kernel: Sequence[int]) -> list[Taps]:
    n = len(sizes)
    strides, dilations = c.attr("strides") or [1] * n, c.attr("dilations") or [1] * n
    pads = paddings(c, sizes, kernel, strides, dilations)
    tables = [
        windows.sliding(s, k, stride=t, dilation=d, before=before, after=after)
        for s, k, t, d, (before, after) in zip(sizes, kernel, strides, dilations, pads, strict=True)
    ]
    return _filled(tables, sizes)


def _filled(tables: list[Taps], sizes: Shape) -> list[Taps]:
    if any(table.shape[1] == 0 for table in tables) and 0 not in sizes:
        raise MisfitError(f"an input of {'x'.join(map(str, sizes))} is smaller than the kernel")
    return tables


def convolve(c: OpCall, x: int, weight: LiveValue | ConstantValue, op: str = "conv") -> int:
    """Convolve x [N, groups*C, *sizes] with a kernel [groups*M, C, *kernel]."""
    groups, sizes = c.attr("group", 1), c.b.shape(x)[2:]
    shape = c.shape_of(weight)
    if len(shape) != len(sizes) + 2 or shape[1] * groups != c.b.shape(x)[1]:
        raise MisfitError(f"a kernel of shape {list(shape)} does not fit an input of shape {list(c.b.shape(x))}")
    return apply_kernel(c, x, weight, conv_windows(c, sizes, shape[2:]), groups, f"{op}{len(sizes)}d")


def apply_kernel(
    c: OpCall, x: int, weight: LiveValue | ConstantValue, tables: Sequence[Taps], groups: int, op: str
) -> int:
    if isinstance(weight, ConstantValue):
        return contract(c, x, weight, op, tables, groups)
    return convolve_by_value(c.b, x, weight.node, tables, groups)


def add_channel_bias(c: OpCall, y: int, bias: Value | None) -> int:
    shift = (
        nonzero(bias.array) if isinstance(bias, ConstantValue) else bias.node if isinstance(bias, LiveValue) else None
    )
    return affine(c.b, y, shift=shift, axis=1)


def window_extent(c: OpCall) -> Extent:
    """Return the sizes of the result of a convolution or pooling, or of its table of taps if that is larger."""
    pooling = "Contract" not in c.operator.primitives
    kernel = c.attr("kernel_shape") or c.shape(3 if c.node.op_type == "QLinearConv" else 1)[2:]
    sizes = c.shape()[2:]
    n = len(sizes)
    strides, dilations = c.attr("strides") or [1] * n, c.attr("dilations") or [1] * n
    pads = c.attr("pads") or [0] * 2 * n
    outs = []
    for i, size in enumerate(sizes):
        if c.node.op_type == "ConvTranspose":
            grown = strides[i] * (size - 1) + (c.attr("output_padding") or [0] * n)[i] + (kernel[i] - 1) * dilations[i]
            out = grown + 1 - pads[i] - pads[i + n]
        else:
            out = (size + pads[i] + pads[i + n] - dilations[i] * (kernel[i] - 1) - 1) // max(strides[i], 1) + 1
        outs.append(max(out, 0))
    taps = max((out * k for out, k in zip(outs, kernel, strict=True)), default=1)
    channels = c.shape()[1] if pooling else max(c.shape(1)[:2]) * c.attr("group", 1)
    wanted = c.attr("output_shape") if c.node.op_type == "ConvTranspose" else None
    return max(([c.shape()[0], channels, *(wanted or outs)], [taps]), key=lambda extent: math.prod(extent))


@operator("Conv", primitives="Contract", extent=window_extent, contraction=Contraction(), positions="conv")
def conv(c: OpCall) -> Result:
    return add_channel_bias(c, convolve(c, c.x(), c.value(1)), c.get(2))


@operator("FusedConv", domain=MICROSOFT, primitives="Contract")
def fused_conv(c: OpCall) -> Result:
    y = add_channel_bias(c, convolve(c, c.x(), c.value(1)), c.get(2))
    y = c.b.join(y, c.x(3)) if c.has(3) else y
    return activate(c, y, c.attr("activation", ""))


@operator("CausalConvWithState", primitives="Contract")
def causal_conv(c: OpCall) -> Result:
    """A depthwise convolution over past and present."""
    channels, _, k = c.shape(1)
    x = c.b.concat([c.x(3), c.x()], 2) if c.has(3) else c.b.pad(c.x(), 2, k - 1, 0)
    total = c.b.shape(x)[2]
    y = apply_kernel(c, x, c.value(1), [windows.sliding(total, k)], channels, "conv1d")
    return [add_channel_bias(c, y, c.get(2)), c.b.slice(x, 2, total - (k - 1), total)]


@operator(
    "ConvTranspose",
    primitives="Contract",
    extent=window_extent,
    contraction=Contraction(),
    positions="conv_transpose",
)
def conv_transpose(c: OpCall) -> Result:
    sizes, groups, weight = c.shape()[2:], c.attr("group", 1), c.value(1)
    shape = c.shape(1)
    n, kernel = len(sizes), shape[2:]
    if shape[0] != c.shape()[1]:
        raise MisfitError(f"a kernel of shape {list(shape)} does not fit an input of shape {list(c.shape())}")
    strides, dilations = c.attr("strides") or [1] * n, c.attr("dilations") or [1] * n
    extra = c.attr("output_padding") or [0] * n
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads, outs = _transposed_geometry(c, sizes, spans, strides, extra)
    tables = [
        windows.transposed(o, s, k, stride=t, dilation=d, before=before)
        for o, s, k, t, d, before in zip(outs, sizes, kernel, strides, dilations, pads, strict=True)
    ]
    split = (groups, shape[0] // groups, shape[1], *kernel)
    joined = (groups * shape[1], shape[0] // groups, *kernel)
    order = (0, 2, 1, *range(3, 3 + n))
    turned: LiveValue | ConstantValue
    if isinstance(weight, ConstantValue):
        turned = weight.moved(lambda a: a.reshape(split).transpose(order).reshape(joined))
    else:
        turned = LiveValue(c.b.reshape(c.b.permute(c.b.reshape(weight.node, split), order), joined))
    y = apply_kernel(c, c.x(), turned, tables, groups, f"conv_transpose{n}d")
    return add_channel_bias(c, y, c.get(2))


def _transposed_geometry(
    c: OpCall, sizes: Shape, spans: Sequence[int], strides: Sequence[int], extra: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the padding before, and the output size, for each axis. A given output size determines the padding."""
    n = len(sizes)
    full = [t * (s - 1) + e + k for s, k, t, e in zip(sizes, spans, strides, extra, strict=True)]
    wanted, auto = c.attr("output_shape"), c.attr("auto_pad", "NOTSET")
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        outs = list(wanted)[-n:] if wanted is not None else [s * t for s, t in zip(sizes, strides, strict=True)]
        totals = [max(f - o, 0) for f, o in zip(full, outs, strict=True)]
        return [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in totals], outs
    pads = [0] * 2 * n if auto == "VALID" else c.attr("pads") or [0] * 2 * n
    return pads[:n], [f - before - after for f, before, after in zip(full, pads[:n], pads[n:], strict=True)]


@operator("DeformConv", primitives="Mix, Contract")
def deform_conv(c: OpCall) -> Result:
    """Offsets may move a tap anywhere, so each tap sees its whole channel and its own offsets."""
    n, channels, *sizes = c.shape()
    rows, depth, *kernel = c.shape(1)
    taps, outs = math.prod(kernel), c.shape(2)[2:]
    offset_groups, groups = c.attr("offset_group", 1), c.attr("group", 1)
    ones = (1,) * len(outs)
    seen = c.b.reduce(c.x(), range(2, 2 + len(sizes)), keepdim=False)
    seen = c.b.reshape(seen, (n, offset_groups, channels // offset_groups, 1, *ones))
    moves = c.b.reshape(c.x(2), (n, offset_groups, 1, taps, len(sizes), *outs))
    moves = c.b.reduce(moves, (4,), keepdim=False)
    read = c.b.times(seen, c.b.join(moves, keeps_zero=False))
    if c.has(4):
        read = c.b.times(read, c.b.reshape(c.x(4), (n, offset_groups, 1, taps, *outs)))
    read = c.b.reshape(read, (n, channels * taps, *outs))
    read = c.b.permute(read, (0, *range(2, 2 + len(outs)), 1))
    weight = c.value(1)
    flat = (rows, depth * taps)
    if isinstance(weight, ConstantValue):
        y = contract(c, read, weight.moved(lambda a: a.reshape(flat)), "deform_conv2d", groups=groups)
    else:
        split = c.b.reshape(read, (*c.b.shape(read)[:-1], groups, depth * taps))
        kernel_node = c.b.reshape(weight.node, (groups, rows // groups, depth * taps))
        y = c.b.reshape(c.b.product("nOPgk,gmk->nOPgm", split, kernel_node), (*c.b.shape(read)[:-1], rows))
    return add_channel_bias(c, c.b.permute(y, (0, len(outs) + 1, *range(1, 1 + len(outs)))), c.get(3))


@operator("Col2Im", primitives="Window", extent=lambda c: [*c.shape()[:2], *few_ints(c, 1)])
def col2im(c: OpCall) -> Result:
    """Each image position sums the patch elements on it: a transposed convolution with ones."""
    image, block = c.ints(1), c.ints(2)
    n = len(image)
    strides, dilations = c.attr("strides") or [1] * n, c.attr("dilations") or [1] * n
    pads = c.attr("pads") or [0] * 2 * n
    taps = math.prod(block)
    counts = [
        (size + pads[i] + pads[i + n] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i, size in enumerate(image)
    ]
    batch, rows = c.shape()[:2]
    x = c.b.reshape(c.x(), (batch, rows // taps, *block, *counts))
    for axis in range(n):
        table = windows.transposed(
            image[axis], counts[axis], block[axis], stride=strides[axis], dilation=dilations[axis], before=pads[axis]
        )
        x = _sum_taps(c, x, 2, 2 + n - axis, table)
    return x


def _sum_taps(c: OpCall, x: int, tap_axis: int, count_axis: int, table: Taps) -> int:
    """Sum over an axis of taps and its axis of counts; the axis of image positions becomes the last."""
    shape = c.b.shape(x)
    rank = len(shape)
    order = [i for i in range(rank) if i not in (tap_axis, count_axis)]
    x = c.b.permute(x, [*order, tap_axis, count_axis])
    lead = [shape[i] for i in order]
    taps, count = shape[tap_axis], shape[count_axis]
    x = c.b.reshape(x, [*lead, taps * count])
    flat = np.where(table >= 0, table + np.arange(taps)[:, None] * count, -1)
    return c.b.window(x, [None] * len(lead) + [flat])
