"""Norms, softmax, reductions and windows without weights: positions stay along the axes that they run over, and are
passed on along the others."""

from __future__ import annotations

import numpy as np

from effsparse_cli.compaction.onnx.op_positions import NoRuleError, OpPositions
from effsparse_cli.compaction.onnx.rules.movement import pass_same_axes
from effsparse_cli.compaction.positions import ValuePositions


def reduce(op: OpPositions) -> ValuePositions:
    x, rank = op.x(), len(op.x().axes)
    given = op.parameter(1, "axes")
    over = {int(axis) % rank for axis in given.reshape(-1)} if given is not None else set()
    if not over and op.attr("noop_with_empty_axes", 0):
        return x
    return _reduced(op, over or set(range(rank)))


def reduce_to_index(op: OpPositions) -> ValuePositions:
    return _reduced(op, {op.attr("axis", 0) % len(op.x().axes)})


def _reduced(op: OpPositions, over: set[int]) -> ValuePositions:
    x, facts = op.x(), op.facts
    rank = len(x.axes)
    axes, zeros = [], []
    for axis in range(rank):
        if axis in over:
            facts.need(x.axes[axis])
            if not op.attr("keepdims", 1):
                continue
        axes.append(facts.axis(1) if axis in over else x.axes[axis])
        known = axis not in over and op.operator.keeps_zero
        zeros.append(x.zero(axis) if known else np.zeros(len(axes[-1]), bool))
    return ValuePositions(tuple(axes), tuple(zeros))


def pool(op: OpPositions) -> ValuePositions:
    """The indices that MaxPool may return count through all channels, so nothing can be removed if they are used."""
    if len(op.node.output) > 1 and op.node.output[1]:
        raise NoRuleError
    return pass_same_axes(op, op.x(), same=(0, 1))


def resize(op: OpPositions) -> ValuePositions:
    op.keep_inputs(1)
    fills = op.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    if op.shape[:2] != op.x().shape[:2] or len(op.shape) < 3 or fills:
        raise NoRuleError
    return pass_same_axes(op, op.x(), same=(0, 1))


def pad(op: OpPositions) -> ValuePositions:
    x, rank = op.x(), len(op.shape)
    pads, filled, named = op.parameter(1, "pads"), op.parameter(2), op.parameter(3)
    if pads is None:
        raise NoRuleError
    axes = [int(a) % rank for a in named] if named is not None else list(range(rank))
    padded = {axis for i, axis in enumerate(axes) if pads[i] or pads[i + len(axes)]}
    found = pass_same_axes(op, x, same=[axis for axis in range(rank) if axis not in padded])
    fill = op.attr("value", 0.0) if filled is None else filled
    return found if not np.any(np.asarray(fill) != 0) else op.never_zero(found.axes)


def batch_norm(op: OpPositions) -> ValuePositions:
    """A channel that is zero stays zero if nothing is added to it."""
    x = op.x()
    if op.attr("training_mode", 0):
        raise NoRuleError
    for value in op.given[1:]:
        op.facts.join(x.axes[1], value.axes[0])
    zeros = [np.zeros(n, bool) for n in x.shape]
    scale, shift, mean = (op.x(i).array for i in (1, 2, 3))
    if scale is not None and shift is not None and mean is not None:
        zeros[1] = (x.zero(1) | (scale == 0)) & (shift == 0) & ((mean == 0) | (scale == 0))
    return ValuePositions(x.axes, tuple(zeros))


def instance_norm(op: OpPositions) -> ValuePositions:
    x = op.x()
    for value in op.given[1:]:
        op.facts.join(x.axes[1], value.axes[0])
    return _mixed(op, range(2, len(x.axes)))


def layer_norm(op: OpPositions) -> ValuePositions:
    op.keep_inputs(1)
    rank = len(op.x().axes)
    return _mixed(op, range(op.attr("axis", -1) % rank, rank))


def lp_norm(op: OpPositions) -> ValuePositions:
    return _mixed(op, [op.attr("axis", -1) % len(op.shape)])


def softmax(op: OpPositions) -> ValuePositions:
    """Before opset 13, softmax is over all axes from the given one on."""
    rank = len(op.shape)
    axis = op.attr("axis", -1 if op.opset >= 13 else 1) % rank
    return _mixed(op, [axis] if op.opset >= 13 else range(axis, rank))


def cumulate(op: OpPositions) -> ValuePositions:
    axis = op.parameter(1)
    if axis is None:
        raise NoRuleError
    return _mixed(op, [int(axis.reshape(-1)[0]) % len(op.shape)])


def _mixed(op: OpPositions, axes: list[int] | range) -> ValuePositions:
    x = op.x()
    op.facts.need(*(x.axes[axis] for axis in axes))
    return op.never_zero(x.axes)
