"""Convolution and pooling: their geometry becomes tables of taps, a stored kernel one Contract, and any other kernel a
product over gathered patches. A maximum may be anywhere in its window, so every position passes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, Value
from effsparse_cli.formats.onnx.lowering.weights import contract
from effsparse_cli.formats.onnx.operators import MICROSOFT, Contraction, Extent, MisfitError, Result, operator
from effsparse_cli.formats.onnx.ops.contraction import activate
from effsparse_cli.formats.onnx.ops.movement import move
from effsparse_cli.formats.onnx.tensors.stored import nonzero
from effsparse_cli.graph import windows
from effsparse_cli.graph.contraction import convolve_by_value
from effsparse_cli.graph.layers import affine
from effsparse_cli.graph.primitives import Taps

SAME = ("SAME_UPPER", "SAME_LOWER")
"""Padding with which only the stride makes the output smaller; an odd element is added at the end or the start."""


def window_axes(c: OpCall, sizes: Sequence[int], kernel: Sequence[int]) -> list[dict[str, int]]:
    """Return stride, dilation, and padding before and after, for each axis."""
    n, auto = len(sizes), c.attr("auto_pad", "NOTSET")
    strides, dilations = c.attr("strides") or [1] * n, c.attr("dilations") or [1] * n
    pads = [0] * 2 * n if auto in ("VALID", *SAME) else c.attr("pads") or [0] * 2 * n
    axes = []
    for size, k, stride, dilation, *pad in zip(sizes, kernel, strides, dilations, pads[:n], pads[n:], strict=True):
        if auto in SAME:
            total = max((-(-size // stride) - 1) * stride + dilation * (k - 1) + 1 - size, 0)
            pad = sorted((total // 2, total - total // 2), reverse=auto == "SAME_LOWER")
        axes.append({"stride": stride, "dilation": dilation, "before": pad[0], "after": pad[1]})
    return axes


def convolve(c: OpCall, x: int, weight: LiveValue | ConstantValue) -> int:
    """Convolve x [N, groups*C, *sizes] with a kernel [groups*M, C, *kernel]."""
    groups, sizes = c.attr("group", 1), c.b.shape(x)[2:]
    shape = c.shape_of(weight)
    if len(shape) != len(sizes) + 2 or shape[1] * groups != c.b.shape(x)[1]:
        raise MisfitError(f"a kernel of shape {list(shape)} does not fit an input of shape {list(c.b.shape(x))}")
    axes = zip(sizes, shape[2:], window_axes(c, sizes, shape[2:]), strict=True)
    tables = [windows.sliding(size, k, **axis) for size, k, axis in axes]
    if any(table.shape[1] == 0 for table in tables) and 0 not in sizes:
        raise MisfitError(f"an input of {'x'.join(map(str, sizes))} is smaller than the kernel")
    return apply_kernel(c, x, weight, tables, groups, f"conv{len(sizes)}d")


def apply_kernel(
    c: OpCall, x: int, weight: LiveValue | ConstantValue, tables: Sequence[Taps], groups: int, op: str
) -> int:
    if isinstance(weight, ConstantValue):
        return contract(c, x, weight, op, tables, groups)
    return convolve_by_value(c.b, x, weight.node, tables, groups)


def add_channel_bias(c: OpCall, y: int, bias: Value | None) -> int:
    if isinstance(bias, ConstantValue):
        return affine(c.b, y, shift=nonzero(bias.array), axis=1)
    return affine(c.b, y, shift=bias.node if isinstance(bias, LiveValue) else None, axis=1)


def window_extent(c: OpCall) -> Extent:
    """Return the sizes of the result of a convolution or pooling, or of its table of taps if that is larger."""
    pooling = "Contract" not in c.operator.primitives
    kernel = c.attr("kernel_shape") or c.shape(3 if c.node.op_type == "QLinearConv" else 1)[2:]
    sizes = c.shape()[2:]
    if c.node.op_type == "ConvTranspose":
        outs = _transposed_axes(c, sizes, kernel)[0]
    else:
        axes = zip(sizes, kernel, window_axes(c, sizes, kernel), strict=True)
        outs = [windows.pooled_size(size, k, **axis, ceil=False) for size, k, axis in axes]
    outs = [max(out, 0) for out in outs]
    taps = max((out * k for out, k in zip(outs, kernel, strict=True)), default=1)
    channels = c.shape()[1] if pooling else max(c.shape(1)[:2]) * c.attr("group", 1)
    return max([c.shape()[0], channels, *outs], [taps], key=math.prod)


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
    "ConvTranspose", primitives="Contract", extent=window_extent, contraction=Contraction(), positions="conv_transpose"
)
def conv_transpose(c: OpCall) -> Result:
    sizes, groups, weight = c.shape()[2:], c.attr("group", 1), c.value(1)
    shape = c.shape(1)
    n, kernel = len(sizes), shape[2:]
    if shape[0] != c.shape()[1]:
        raise MisfitError(f"a kernel of shape {list(shape)} does not fit an input of shape {list(c.shape())}")
    axes = zip(*_transposed_axes(c, sizes, kernel), sizes, kernel, strict=True)
    tables = [windows.transposed(out, size, k, **axis) for out, axis, size, k in axes]
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


def _transposed_axes(c: OpCall, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], list[dict[str, int]]]:
    """Return output size, and stride, dilation and padding before, per axis. An output size determines the padding."""
    n, auto, wanted = len(sizes), c.attr("auto_pad", "NOTSET"), c.attr("output_shape")
    extra, axes, outs = c.attr("output_padding") or [0] * n, window_axes(c, sizes, kernel), []
    given = [None] * n if wanted is None else list(wanted)[-n:]
    for size, k, axis, more, out in zip(sizes, kernel, axes, extra, given, strict=True):
        full = axis["stride"] * (size - 1) + more + (k - 1) * axis["dilation"] + 1
        after = axis.pop("after")
        if wanted is not None or auto in SAME:
            out = size * axis["stride"] if out is None else out
            total = max(full - out, 0)
            axis["before"] = total // 2 if auto == "SAME_UPPER" else total - total // 2
        outs.append(full - axis["before"] - after if out is None else out)
    return outs, axes


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


@operator("Col2Im", primitives="Window", extent=lambda c: [*c.shape()[:2], *c.few_ints(1)])
def col2im(c: OpCall) -> Result:
    """Each image position sums the patch elements on it: a transposed convolution with ones."""
    image, block = c.ints(1), c.ints(2)
    axes = window_axes(c, image, block)
    counts = [
        windows.pooled_size(size, k, **axis, ceil=False) for size, k, axis in zip(image, block, axes, strict=True)
    ]
    batch, rows = c.shape()[:2]
    x = c.b.reshape(c.x(), (batch, rows // math.prod(block), *block, *counts))
    for i, axis in enumerate(axes):
        del axis["after"]
        x = _sum_taps(c, x, 2, 2 + len(image) - i, windows.transposed(image[i], counts[i], block[i], **axis))
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


@operator("MaxPool", "AveragePool", "LpPool", primitives="Window", extent=window_extent, positions="pooling")
def pool(c: OpCall) -> Result:
    pooled = move(c, lambda x: pool_node(c, x))
    if len(c.node.output) > 1:
        return [pooled, c.b.join(pool_node(c, c.x()), keeps_zero=False)]  # type: ignore[list-item]
    return pooled


def pool_node(c: OpCall, x: int) -> int:
    sizes, kernel = c.b.shape(x)[2:], c.attr("kernel_shape")
    tables = []
    for size, k, axis in zip(sizes, kernel, window_axes(c, sizes, kernel), strict=True):
        out = windows.pooled_size(size, k, **axis, ceil=bool(c.attr("ceil_mode", 0)))
        if out < 1 and size:
            raise MisfitError(f"an input of {'x'.join(map(str, sizes))} is smaller than the window")
        del axis["after"]
        tables.append(windows.sliding_to(max(out, 0), size, k, **axis))
    return c.b.window(x, [None, None, *tables])


@operator(
    "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", primitives="Mix", constants="computed", positions="pooling"
)
def global_pool(c: OpCall) -> Result:
    return move(c, lambda x: c.b.reduce(x, range(2, len(c.b.shape(x))), keepdim=True))


def _regions_extent(c: OpCall) -> Extent:
    size = c.attr("pooled_shape") or [c.attr("output_height", 1), c.attr("output_width", 1)]
    return [c.shape(1)[0], c.shape()[1], *size]


@operator("MaxRoiPool", primitives="Mix, Product", extent=_regions_extent)
def roi_pool(c: OpCall) -> Result:
    """Any region may be selected, so each box sees the whole map of every image."""
    return _regions(c, c.attr("pooled_shape"), [c.b.reduce(c.x(1), (1,), keepdim=False)])


@operator("RoiAlign", primitives="Mix, Product", extent=_regions_extent)
def roi_align(c: OpCall) -> Result:
    boxes = [c.b.reduce(c.x(1), (1,), keepdim=False), c.x(2)]
    return _regions(c, [c.attr("output_height", 1), c.attr("output_width", 1)], boxes)


def _regions(c: OpCall, size: list[int], boxes: list[int]) -> int:
    channels, count = c.shape()[1], c.shape(1)[0]
    seen = c.b.reshape(c.b.reduce(c.x(), (0, 2, 3), keepdim=False), (1, channels, 1, 1))
    where = c.b.reshape(c.b.join(*boxes, keeps_zero=False), (count, 1, 1, 1))
    return c.b.expand(c.b.times(seen, where), (count, channels, *size))
