"""Norms and softmax: positions stay along the axes that they average over, and are passed on along the others."""

from __future__ import annotations

import numpy as np

from effsparse_cli.compaction.onnx.op_positions import NoRuleError, OpPositions
from effsparse_cli.compaction.positions import ValuePositions


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
    return ValuePositions(x.axes, tuple(np.zeros(n, bool) for n in x.shape))
