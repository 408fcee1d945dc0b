"""Norms and softmax: along the axes that they average over all stays, along the others positions are handed on."""

from __future__ import annotations

import numpy as np

from effsparse_cli.compaction.onnx.table import NoRuleError, Use, rule
from effsparse_cli.compaction.positions import Value


@rule("BatchNormalization")
def batch_norm(use: Use) -> Value:
    """A channel that is zero stays zero where nothing is added to it."""
    x = use.x()
    if use.attr("training_mode", 0):
        raise NoRuleError
    for value in use.given[1:]:
        use.facts.join(x.axes[1], value.axes[0])
    zeros = [np.zeros(n, bool) for n in x.shape]
    scale, shift, mean = (use.x(i).array for i in (1, 2, 3))
    if scale is not None and shift is not None and mean is not None:
        zeros[1] = (x.zero(1) | (scale == 0)) & (shift == 0) & ((mean == 0) | (scale == 0))
    return Value(x.axes, tuple(zeros))


@rule("InstanceNormalization")
def instance_norm(use: Use) -> Value:
    x = use.x()
    for value in use.given[1:]:
        use.facts.join(x.axes[1], value.axes[0])
    return _mixed(use, range(2, len(x.axes)))


@rule("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_norm(use: Use) -> Value:
    use.rest(1)
    rank = len(use.x().axes)
    return _mixed(use, range(use.attr("axis", -1) % rank, rank))


@rule("LpNormalization")
def lp_norm(use: Use) -> Value:
    return _mixed(use, [use.attr("axis", -1) % len(use.shape)])


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(use: Use) -> Value:
    """Before opset 13 it took all axes from the given one on together."""
    rank = len(use.shape)
    axis = use.attr("axis", -1 if use.opset >= 13 else 1) % rank
    return _mixed(use, [axis] if use.opset >= 13 else range(axis, rank))


@rule("CumSum")
def cumulate(use: Use) -> Value:
    axis = use.setting(1)
    if axis is None:
        raise NoRuleError
    return _mixed(use, [int(axis.reshape(-1)[0]) % len(use.shape)])


def _mixed(use: Use, axes: list[int] | range) -> Value:
    x = use.x()
    use.facts.need(*(x.axes[axis] for axis in axes))
    return Value(x.axes, tuple(np.zeros(n, bool) for n in x.shape))
