"""Operators that slice, repeat, concatenate or pad along axes."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue
from effsparse_cli.formats.onnx.operators import Extent, MisfitError, NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.ops.movement import move


def _tiled(c: OpCall) -> Extent:
    repeats = c.few_ints(1)
    return [n * r for n, r in zip(c.shape(), repeats, strict=True)] if len(repeats) == len(c.shape()) else repeats


@operator("Tile", primitives="Take", constants="moved", extent=_tiled, positions="tile")
def tile(c: OpCall) -> Result:
    repeats = c.ints(1)
    if c.opset < 6:
        axis = c.ints(2)[0]
        repeats = [repeats[0] if i == axis else 1 for i in range(len(c.shape()))]

    def change(x: int) -> int:
        for axis, n in enumerate(repeats):
            x = c.b.take(x, axis, np.tile(np.arange(c.b.shape(x)[axis]), n))
        return x

    return move(c, change)


def _concatenated(c: OpCall) -> Extent:
    shapes = c.input_shapes()
    sizes = list(shapes[0])
    axis = c.attr("axis", 1)
    sizes[axis] = sum(shape[axis] for shape in shapes)
    return sizes


@operator(
    "Concat",
    primitives="Concat", constants="concatenated", extent=_concatenated, positions="concat", names_layers=False,
)  # fmt: skip
def concat(c: OpCall) -> Result:
    live = [value for value in c.inputs if isinstance(value, LiveValue)]
    shifted = all(value.shifted for value in live) and len(live) == len(c.inputs)
    nodes = [value.node for value in live] if shifted else c.xs()
    axis = c.attr("axis", 1) % len(c.b.shape(nodes[0]))
    if len({(*s[:axis], *s[axis + 1 :]) for s in map(c.b.shape, nodes)}) > 1:
        raise MisfitError(f"{[list(c.b.shape(n)) for n in nodes]} cannot be joined along axis {axis}")
    return LiveValue(c.b.concat(nodes, axis), shifted=shifted)


@operator("Split", primitives="Take", constants="split", positions="split")
def split(c: OpCall) -> Result:
    axis, outputs = c.attr("axis", 0), len(c.node.output)
    total = c.shape()[axis]
    sizes = c.ints_from(1, "split")
    if sizes is None:
        size = -(-total // outputs)
        sizes = [min(size, max(total - i * size, 0)) for i in range(outputs)]
    if sum(sizes) != total:
        raise MisfitError(f"an axis of {total} cannot be split into {sizes}")
    ends = np.cumsum([0, *sizes])
    return [
        move(c, lambda x, i=i: c.b.slice(x, axis, int(ends[i]), int(ends[i + 1])))  # type: ignore[misc]
        for i in range(outputs)
    ]


@operator("Slice", primitives="Take", constants="moved", positions="slice")
def slice_(c: OpCall) -> Result:
    if c.is_live(1) or c.is_live(2):
        return _live_slice(c)
    starts, ends = c.ints_from(1, "starts") or [], c.ints_from(2, "ends") or []
    rank = len(c.shape())
    axes = c.ints_from(3, "axes") or list(range(len(starts)))
    steps = c.ints(4) if c.has(4) else [1] * len(starts)

    def change(x: int) -> int:
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            n = c.b.shape(x)[axis % rank]
            # A backward slice that ends before the axis runs to its first element; it does not wrap around.
            stop = None if step < 0 and end < -n else end
            x = c.b.slice(x, axis % rank, start, stop, step)
        return x

    return move(c, change)


def _live_slice(c: OpCall) -> Result:
    """Slice at live positions: any element along the axes may be selected."""
    shape, wanted = c.shape(), c.expected()
    axes = [a % len(shape) for a in c.ints(3)] if c.has(3) else list(range(c.shape(1)[0]))
    if len(wanted) != len(shape) or any(wanted[i] != n for i, n in enumerate(shape) if i not in axes):
        raise NotLoweredError("its size is computed from the model's input")
    picked = c.b.reduce(c.x(), axes, keepdim=True)
    places = [c.b.reduce(c.x(i), None, keepdim=False) for i in (1, 2, 4) if c.is_live(i)]
    return c.b.expand(c.b.times(picked, c.b.join(*places, keeps_zero=False)), wanted)


def _padded(c: OpCall) -> Extent:
    pads = c.attr("pads") or c.attr("paddings") or c.few_ints(1)
    axes = c.few_ints(3) or range(len(c.shape()))
    sizes = list(c.shape())
    for i, axis in enumerate(axes):
        sizes[axis] += pads[i] + pads[i + len(pads) // 2]
    return sizes


def _pads_with_zeros(c: OpCall, _: ConstantValue) -> bool:
    if c.attr("mode", "constant") != "constant":
        return True
    fill = c.array(2) if c.has(2) else c.attr("value", 0.0)
    return not np.any(np.asarray(fill) != 0)


@operator(
    "Pad", primitives="Take, Join", constants="moved", can_follow=_pads_with_zeros, extent=_padded, positions="pad"
)
def pad(c: OpCall) -> Result:
    widths = c.ints_from(1, "pads") or c.attr("paddings") or []
    shape, mode = c.shape(), c.attr("mode", "constant")
    axes = [a % len(shape) for a in c.ints(3)] if c.has(3) else list(range(len(shape)))
    nonzero = False
    if mode == "constant":
        nonzero = c.is_live(2) or bool(c.array(2).any()) if c.has(2) else bool(c.attr("value", 0.0))
    x = c.x()
    for i, axis in enumerate(axes):
        before, after = widths[i], widths[i + len(axes)]
        if mode == "constant":
            x = c.b.pad(x, axis, before, after, nonzero)
        else:
            n = shape[axis]
            kept = np.arange(n)[max(-before, 0) : n - max(-after, 0)]
            x = c.b.take(x, axis, np.pad(kept, (max(before, 0), max(after, 0)), mode))
    return x
