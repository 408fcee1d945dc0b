"""Operators that cut, repeat, join or pad along axes."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.ops.movement import move
from effsparse_cli.formats.onnx.table import MisfitError, NotLoweredError, Result, lowers
from effsparse_cli.formats.onnx.values import Live


@lowers("Tile", primitive="Take", folding="moves")
def tile(c: Call) -> Result:
    repeats = c.ints(1)
    if c.opset < 6:
        axis = c.ints(2)[0]
        repeats = [repeats[0] if i == axis else 1 for i in range(len(c.shape()))]

    def change(x: int) -> int:
        for axis, n in enumerate(repeats):
            x = c.b.take(x, axis, np.tile(np.arange(c.b.shape(x)[axis]), n))
        return x

    return move(c, change)


@lowers("Concat", primitive="Concat", folding="value")
def concat(c: Call) -> Result:
    live = [value for value in c.inputs if isinstance(value, Live)]
    shifted = all(value.shifted for value in live) and len(live) == len(c.inputs)
    nodes = [value.node for value in live] if shifted else c.xs()
    axis = c.attr("axis", 1) % len(c.b.shape(nodes[0]))
    if len({(*s[:axis], *s[axis + 1 :]) for s in map(c.b.shape, nodes)}) > 1:
        raise MisfitError(f"{[list(c.b.shape(n)) for n in nodes]} cannot be joined along axis {axis}")
    return Live(c.b.concat(nodes, axis), shifted=shifted)


@lowers("Split", primitive="Take", folding="value")
def split(c: Call) -> Result:
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


@lowers("Slice", primitive="Take", folding="moves")
def slice_(c: Call) -> Result:
    if c.is_live(1) or c.is_live(2):
        return _live_slice(c)
    starts, ends = c.ints_from(1, "starts") or [], c.ints_from(2, "ends") or []
    rank = len(c.shape())
    axes = c.ints_from(3, "axes") or list(range(len(starts)))
    steps = c.ints(4) if c.has(4) else [1] * len(starts)

    def change(x: int) -> int:
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            n = c.b.shape(x)[axis % rank]
            # Below the start of the axis a backward slice runs to its first element, not around.
            stop = None if step < 0 and end < -n else end
            x = c.b.slice(x, axis % rank, start, stop, step)
        return x

    return move(c, change)


def _live_slice(c: Call) -> Result:
    """Where it cuts depends on the values: anything along the axes may be picked."""
    shape, wanted = c.shape(), c.expected()
    axes = [a % len(shape) for a in c.ints(3)] if c.has(3) else list(range(c.shape(1)[0]))
    if len(wanted) != len(shape) or any(wanted[i] != n for i, n in enumerate(shape) if i not in axes):
        raise NotLoweredError("its size is computed from the model's input")
    picked = c.b.reduce(c.x(), axes, keepdim=True)
    places = [c.b.reduce(c.x(i), None, keepdim=False) for i in (1, 2, 4) if c.is_live(i)]
    return c.b.expand(c.b.times(picked, c.b.join(*places, keeps_zero=False)), wanted)


@lowers("Pad", primitive="Take, Join", folding="moves")
def pad(c: Call) -> Result:
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
