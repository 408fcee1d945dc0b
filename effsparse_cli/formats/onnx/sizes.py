"""How large an operator's result will be, before anything is computed: for every operator whose result can be larger
than its inputs. Numbers that the model computes from its input are not known here, and count as 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.table import canonical
from effsparse_cli.formats.onnx.values import Items, Known
from effsparse_cli.graph.einsum import letter_sizes

Extent = Sequence[int]
"""Sizes along the axes."""

INDEXED = (
    "CenterCropPad", "Compress", "EyeLike", "GatherElements", "GatherND", "GRU", "LSTM", "ReverseSequence", "RNN",
    "Scatter", "ScatterElements", "ScatterND", "TensorScatter", "Trilu",
)  # fmt: skip
"""Lowered with an index for each element, which takes more memory than anything else."""

SLOW = {"Resize": 1 << 16, "Upsample": 1 << 16, "ScatterElements": 1 << 20, "Scatter": 1 << 20, "ScatterND": 1 << 20}
"""Elements up to which the reference evaluates these, which it does one by one."""

PRODUCTS = ("MatMul", "MatMulInteger", "Gemm", "Einsum")


def result_extent(c: Call, elementwise: bool) -> Extent:
    """Sizes of the largest result along its axes. Values that make no sense are left to the operator itself."""
    grows = GROWING.get(c.node.op_type) if not canonical(c.node.domain) else None
    try:
        if grows is not None:
            return [max(int(n), 0) for n in grows(c)]
        shapes = _shapes(c)
        return np.broadcast_shapes(*shapes) if elementwise else max(shapes, key=math.prod, default=())
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError):
        return ()


def multiplications(c: Call) -> int:
    """Of a product of constants; no other operator takes much more time than its result has elements."""
    if c.node.op_type not in PRODUCTS:
        return 0
    if c.node.op_type == "Einsum":
        return math.prod(_letters(c).values())
    return math.prod(result_extent(c, elementwise=False)) * c.shape(0)[0 if c.attr("transA", 0) else -1]


def _shapes(c: Call) -> list[tuple[int, ...]]:
    return [c.shape_of(v) for v in c.inputs if v is not None and not isinstance(v, Items)]


def _values(c: Call, i: int) -> list[int]:
    """The numbers of input i, if they are known and few."""
    value = c.get(i)
    if not isinstance(value, Known) or math.prod(value.shape) > 1 << 16:
        return []
    return [int(n) for n in value.array.reshape(-1)]


def _expand(c: Call) -> Extent:
    return np.broadcast_shapes(c.shape(), tuple(max(n, 0) for n in _values(c, 1)))


def _tile(c: Call) -> Extent:
    repeats = _values(c, 1)
    return [n * r for n, r in zip(c.shape(), repeats, strict=True)] if len(repeats) == len(c.shape()) else repeats


def _range(c: Call) -> Extent:
    start, limit, step = (float(c.array(i).reshape(-1)[0]) if c.known(i) is not None else 1.0 for i in range(3))
    return [math.ceil((limit - start) / step)]


def _pad(c: Call) -> Extent:
    pads = c.attr("pads") or c.attr("paddings") or _values(c, 1)
    axes = _values(c, 3) or range(len(c.shape()))
    sizes = list(c.shape())
    for i, axis in enumerate(axes):
        sizes[axis] += pads[i] + pads[i + len(pads) // 2]
    return sizes


def _resize(c: Call) -> Extent:
    sizes = list(c.shape())
    axes = c.attr("axes") or range(len(sizes))
    wanted = _values(c, 3)
    scales = c.attr("scales")
    for i in (2, 1):
        if scales is None and c.known(i) is not None and math.prod(c.shape(i)) == len(axes):
            scales = [float(x) for x in c.array(i).reshape(-1)]
    for i, axis in enumerate(axes):
        sizes[axis] = wanted[i] if wanted else int(sizes[axis] * scales[i]) if scales else sizes[axis]
    return sizes


def _one_hot(c: Call) -> Extent:
    return [*c.shape(), *_values(c, 1)[:1]]


def _concat(c: Call) -> Extent:
    shapes = _shapes(c)
    sizes = list(shapes[0])
    axis = c.attr("axis", 1)
    sizes[axis] = sum(shape[axis] for shape in shapes)
    return sizes


def _gather(c: Call) -> Extent:
    axis = c.attr("axis", 0) % len(c.shape())
    return [*c.shape()[:axis], *c.shape(1), *c.shape()[axis + 1 :]]


def _gather_nd(c: Call) -> Extent:
    *lead, depth = c.shape(1)
    return [*lead, *c.shape()[c.attr("batch_dims", 0) + depth :]]


def _matmul(c: Call) -> Extent:
    a, b = c.shape(0), c.shape(1)
    flips = (c.attr("transA", 0), c.attr("transB", 0)) if c.node.op_type == "Gemm" else (0, 0)
    rows = [] if len(a) == 1 else [a[-1 if flips[0] else -2]]
    columns = [] if len(b) == 1 else [b[-2 if flips[1] else -1]]
    return [*np.broadcast_shapes(a[:-2], b[:-2]), *rows, *columns]


def _letters(c: Call) -> dict[str, int]:
    return letter_sizes(c.attr("equation"), [c.shape(i) for i in range(len(c.inputs))])


def _einsum(c: Call) -> Extent:
    left, arrow, out = c.attr("equation").replace(" ", "").partition("->")
    sizes = _letters(c)
    kept = [letter for letter in sizes if letter.startswith(".") or left.count(letter) == 1]
    return [sizes[letter] for letter in (out.replace("...", "") if arrow else kept)]


def _shape_given(position: int) -> Callable[[Call], Extent]:
    return lambda c: _values(c, position)


def _shape_attribute(c: Call) -> Extent:
    return list(c.attr("shape") or [])


def _mel(c: Call) -> Extent:
    return [*_values(c, 0), *(n // 2 + 1 for n in _values(c, 1))]


def _spectrum(c: Call) -> Extent:
    return [*c.shape(), *(_values(c, 1)[:1] if c.node.op_type == "DFT" else _values(c, 3)[:1])]


def _crop_or_pad(c: Call) -> Extent:
    sizes = list(c.shape())
    for axis, n in zip(c.attr("axes") or range(len(sizes)), _values(c, 1), strict=False):
        sizes[axis] = n
    return sizes


def _conv(c: Call) -> Extent:
    """The output, and the taps that each of its positions reads, along every axis."""
    pooling = c.node.op_type in ("MaxPool", "AveragePool", "LpPool")
    kernel = c.attr("kernel_shape") or c.shape(3 if c.node.op_type == "QLinearConv" else 1)[2:]
    sizes = c.shape()[2:]
    n = len(sizes)
    strides, dilations, pads = (c.attr(name) or [k] * m for name, k, m in _windows(n))
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


def _windows(n: int) -> tuple[tuple[str, int, int], ...]:
    return ("strides", 1, n), ("dilations", 1, n), ("pads", 0, 2 * n)


def _regions(c: Call) -> Extent:
    size = c.attr("pooled_shape") or [c.attr("output_height", 1), c.attr("output_width", 1)]
    return [c.shape(1)[0], c.shape()[1], *size]


def _grid(c: Call) -> Extent:
    return [*c.shape()[:2], *c.shape(1)[1:-1]]


def _col2im(c: Call) -> Extent:
    return [*c.shape()[:2], *_values(c, 1)]


def _pieces(c: Call) -> Extent:
    """One value each for every piece."""
    return [1 << 10, *c.shape()] if not c.has(1) or math.prod(c.shape(1)) == 1 else c.shape()


GROWING: dict[str, Callable[[Call], Extent]] = {
    "AffineGrid": _shape_given(1),
    "AveragePool": _conv,
    "BlackmanWindow": _shape_given(0),
    "CenterCropPad": _crop_or_pad,
    "Col2Im": _col2im,
    "Concat": _concat,
    "ConstantOfShape": _shape_given(0),
    "Conv": _conv,
    "ConvInteger": _conv,
    "ConvTranspose": _conv,
    "DFT": _spectrum,
    "Einsum": _einsum,
    "Expand": _expand,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Gemm": _matmul,
    "GridSample": _grid,
    "HammingWindow": _shape_given(0),
    "HannWindow": _shape_given(0),
    "LpPool": _conv,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "MaxPool": _conv,
    "MaxRoiPool": _regions,
    "MaxUnpool": _shape_given(2),
    "MelWeightMatrix": _mel,
    "OneHot": _one_hot,
    "Pad": _pad,
    "QLinearConv": _conv,
    "RandomNormal": _shape_attribute,
    "RandomUniform": _shape_attribute,
    "Range": _range,
    "Resize": _resize,
    "RoiAlign": _regions,
    "STFT": _spectrum,
    "Tile": _tile,
    "Upsample": _resize,
}
