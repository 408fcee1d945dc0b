"""Pooling: windows without weights. A maximum may be anywhere in its window, so every position passes."""

from __future__ import annotations

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.operators import Extent, MisfitError, Result, operator
from effsparse_cli.formats.onnx.ops.convolution import window_axes, window_extent
from effsparse_cli.formats.onnx.ops.movement import move
from effsparse_cli.graph import windows


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
