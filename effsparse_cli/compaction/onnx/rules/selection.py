"""Parts of an axis: slice, split, gather. What they pick keeps its numbers."""

from __future__ import annotations

import numpy as np

from effsparse_cli.compaction.onnx.rules.movement import same_or_whole
from effsparse_cli.compaction.onnx.table import NoRuleError, Use, rule
from effsparse_cli.compaction.positions import Ids, Value


def picked(x: Value, axis: int, index: Ids) -> Value:
    """Positions `index` along one axis."""
    axes = tuple(ids[index] if i == axis else ids for i, ids in enumerate(x.axes))
    zeros = tuple(x.zero(i)[index] if i == axis else x.zero(i) for i in range(len(axes)))
    return Value(axes, zeros)


@rule("Slice")
def slice_(use: Use) -> Value:
    """Where its bounds are computed, all stays along the axes that change."""
    x = use.x()
    if any(value.array is None for value in use.given[1:]):
        use.rest(1)
        return same_or_whole(use, x, alike=_whole_axes(use))
    starts, ends, named, steps = (use.setting(i, a) for i, a in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps")))
    if starts is None or ends is None:
        raise NoRuleError
    axes = [int(a) % len(x.axes) for a in named] if named is not None else list(range(len(starts)))
    for i, axis in enumerate(axes):
        step = int(steps[i]) if steps is not None else 1
        size = x.shape[axis]
        index = np.arange(size)[slice_bounds(int(starts[i]), int(ends[i]), step)]
        if len(index) < size or step != 1:
            if step != 1:
                use.facts.need(x.axes[axis])
            x = picked(x, axis, index)
    return x


def _whole_axes(use: Use) -> list[int]:
    """Axes that are not among those that are sliced."""
    named, rank = use.get(3), len(use.shape)
    if named is None or named.array is None:
        raise NoRuleError
    sliced = {int(axis) % rank for axis in named.array.reshape(-1)}
    return [axis for axis in range(rank) if axis not in sliced]


def slice_bounds(start: int, end: int, step: int) -> slice:
    """As Python has it: an end before the first position, going backwards, is written None."""
    return slice(start, None if step < 0 and end < -(1 << 31) else end, step)


@rule("Split")
def split(use: Use) -> list[Value]:
    x = use.x()
    axis = use.attr("axis", 0) % len(x.axes)
    use.rest(1)
    sizes = [shape[axis] if shape is not None else 0 for shape in use.shapes]
    if sum(sizes) != x.shape[axis]:
        raise NoRuleError
    starts = np.cumsum([0, *sizes])
    return [picked(x, axis, np.arange(starts[i], starts[i + 1])) for i in range(len(sizes))]


@rule("Gather")
def gather(use: Use) -> Value:
    """By constant indices: a choice. By computed ones anything may be asked for along the axis, so it stays whole."""
    data, indices = use.x(0), use.x(1)
    axis = use.attr("axis", 0) % len(data.axes)
    if indices.array is not None and indices.array.ndim == 1:
        use.facts.need(*indices.axes)
        index = indices.array.astype(np.int64)
        return picked(data, axis, np.where(index < 0, index + data.shape[axis], index))
    use.facts.need(data.axes[axis])
    axes = (*data.axes[:axis], *indices.axes, *data.axes[axis + 1 :])
    own = [data.zero(i) for i in range(len(data.axes))]
    return Value(axes, (*own[:axis], *(np.zeros(len(ids), bool) for ids in indices.axes), *own[axis + 1 :]))
