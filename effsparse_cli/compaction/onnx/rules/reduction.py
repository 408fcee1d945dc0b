"""Sums, means and windows without weights: what they run over stays whole, channels are handed on."""

from __future__ import annotations

import numpy as np

from effsparse_cli.compaction.onnx.rules.movement import same_or_whole
from effsparse_cli.compaction.onnx.table import NoRuleError, Use, rule
from effsparse_cli.compaction.positions import Value

OF_ZEROS_ZERO = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")


@rule(*OF_ZEROS_ZERO, "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin")
def reduce(use: Use) -> Value:
    x, facts = use.x(), use.facts
    rank = len(x.axes)
    if use.node.op_type.startswith("Arg"):
        over = {use.attr("axis", 0) % rank}
    else:
        given = use.setting(1, "axes")
        over = {int(axis) % rank for axis in given.reshape(-1)} if given is not None else set()
        if not over and use.attr("noop_with_empty_axes", 0):
            return x
        over = over or set(range(rank))
    axes, zeros = [], []
    for axis in range(rank):
        if axis in over:
            facts.need(x.axes[axis])
            if not use.attr("keepdims", 1):
                continue
        axes.append(facts.axis(1) if axis in over else x.axes[axis])
        known = axis not in over and use.node.op_type in OF_ZEROS_ZERO
        zeros.append(x.zero(axis) if known else np.zeros(len(axes[-1]), bool))
    return Value(tuple(axes), tuple(zeros))


@rule("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def pool(use: Use) -> Value:
    """Places that MaxPool may give as well count through all channels: who wants them keeps all of them."""
    if len(use.node.output) > 1 and use.node.output[1]:
        raise NoRuleError
    return same_or_whole(use, use.x(), alike=(0, 1))


@rule("Resize", "Upsample")
def resize(use: Use) -> Value:
    use.rest(1)
    fills = use.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    if use.shape[:2] != use.x().shape[:2] or len(use.shape) < 3 or fills:
        raise NoRuleError
    return same_or_whole(use, use.x(), alike=(0, 1))


@rule("Pad")
def pad(use: Use) -> Value:
    x, rank = use.x(), len(use.shape)
    pads, filled, named = use.setting(1, "pads"), use.setting(2), use.setting(3)
    if pads is None:
        raise NoRuleError
    axes = [int(a) % rank for a in named] if named is not None else list(range(rank))
    padded = {axis for i, axis in enumerate(axes) if pads[i] or pads[i + len(axes)]}
    found = same_or_whole(use, x, alike=[axis for axis in range(rank) if axis not in padded])
    fill = use.attr("value", 0.0) if filled is None else filled
    return (
        found if not np.any(np.asarray(fill) != 0) else Value(found.axes, tuple(np.zeros(n, bool) for n in use.shape))
    )
