"""Selections along an axis: slice, split, gather. Selected positions keep their numbers."""

from __future__ import annotations

import numpy as np

from effsparse_cli.compaction.onnx.op_positions import NoRuleError, OpPositions
from effsparse_cli.compaction.onnx.rules.movement import pass_same_axes
from effsparse_cli.compaction.positions import Ids, ValuePositions


def select(x: ValuePositions, axis: int, index: Ids) -> ValuePositions:
    """Select positions along one axis."""
    axes = tuple(ids[index] if i == axis else ids for i, ids in enumerate(x.axes))
    zeros = tuple(x.zero(i)[index] if i == axis else x.zero(i) for i in range(len(axes)))
    return ValuePositions(axes, zeros)


def slice_(op: OpPositions) -> ValuePositions:
    """If the bounds are computed, all positions stay along the sliced axes."""
    x = op.x()
    if any(value.array is None for value in op.given[1:]):
        op.keep_inputs(1)
        return pass_same_axes(op, x, same=_whole_axes(op))
    starts, ends, named, steps = (
        op.parameter(i, a) for i, a in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps"))
    )
    if starts is None or ends is None:
        raise NoRuleError
    axes = [int(a) % len(x.axes) for a in named] if named is not None else list(range(len(starts)))
    for i, axis in enumerate(axes):
        step = int(steps[i]) if steps is not None else 1
        size = x.shape[axis]
        index = np.arange(size)[slice_bounds(int(starts[i]), int(ends[i]), step)]
        if len(index) < size or step != 1:
            if step != 1:
                op.facts.need(x.axes[axis])
            x = select(x, axis, index)
    return x


def _whole_axes(op: OpPositions) -> list[int]:
    """Return the axes that are not sliced."""
    named, rank = op.get(3), len(op.shape)
    if named is None or named.array is None:
        raise NoRuleError
    sliced = {int(axis) % rank for axis in named.array.reshape(-1)}
    return [axis for axis in range(rank) if axis not in sliced]


def slice_bounds(start: int, end: int, step: int) -> slice:
    """Return a Python slice, in which a backward slice to the first position ends at None."""
    return slice(start, None if step < 0 and end < -(1 << 31) else end, step)


def split(op: OpPositions) -> list[ValuePositions]:
    x = op.x()
    axis = op.attr("axis", 0) % len(x.axes)
    op.keep_inputs(1)
    sizes = [shape[axis] if shape is not None else 0 for shape in op.shapes]
    if sum(sizes) != x.shape[axis]:
        raise NoRuleError
    starts = np.cumsum([0, *sizes])
    return [select(x, axis, np.arange(starts[i], starts[i + 1])) for i in range(len(sizes))]


def gather(op: OpPositions) -> ValuePositions:
    """Constant indices select positions. Computed indices may select any position, so all of them stay."""
    data, indices = op.x(0), op.x(1)
    axis = op.attr("axis", 0) % len(data.axes)
    if indices.array is not None and indices.array.ndim == 1:
        op.facts.need(*indices.axes)
        index = indices.array.astype(np.int64)
        return select(data, axis, np.where(index < 0, index + data.shape[axis], index))
    op.facts.need(data.axes[axis])
    axes = (*data.axes[:axis], *indices.axes, *data.axes[axis + 1 :])
    own = [data.zero(i) for i in range(len(data.axes))]
    return ValuePositions(axes, (*own[:axis], *(np.zeros(len(ids), bool) for ids in indices.axes), *own[axis + 1 :]))
