"""Reductions, softmax and running sums."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import LiveValue
from effsparse_cli.formats.onnx.operators import Result, operator
from effsparse_cli.graph import layers
from effsparse_cli.graph.primitives import Taps

LONGEST_RUN = 2048
"""Running sums over longer axes become Mix, because their tables grow quadratically."""


@operator(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
    primitives="Mix", constants="computed", keeps_zero=True, positions="reduction",
)  # fmt: skip
@operator(
    "ReduceLogSum", "ReduceLogSumExp",
    primitives="Mix", constants="computed", keeps_zero=False, positions="reduction",
)  # fmt: skip
def reduce(c: OpCall) -> Result:
    axes = c.ints_from(1, "axes")
    if not axes and c.attr("noop_with_empty_axes", 0):
        return c.b.join(c.x(), keeps_zero=c.keeps_zero)
    # An empty product is one, and so on: the result is a constant.
    chosen = range(len(c.shape())) if not axes else [a % len(c.shape()) for a in axes]
    empty = any(c.shape()[a] == 0 for a in chosen)
    if empty:
        kept = [1 if i in chosen else n for i, n in enumerate(c.shape())]
        gone = [n for i, n in enumerate(c.shape()) if i not in chosen]
        return c.b.constant(True, kept if c.attr("keepdims", 1) else gone)
    return c.b.reduce(c.x(), axes or None, bool(c.attr("keepdims", 1)), c.keeps_zero)


@operator("Softmax", "LogSoftmax", "Hardmax", primitives="Mix", constants="computed", positions="softmax")
def softmax(c: OpCall) -> Result:
    rank = len(c.shape())
    x = c.value(0)
    if c.opset < 13:
        # Older opsets flatten everything from the axis on.
        axes = range(c.attr("axis", 1) % max(rank, 1), rank)
        if len(axes) != 1:
            return c.b.mix(c.x(), axes, keeps_zero=False)
        axis = axes[0]
    else:
        axis = c.attr("axis", -1) % max(rank, 1)
    allowed = x.allowed if isinstance(x, LiveValue) and c.node.op_type == "Softmax" else None
    if rank == 0:
        return c.b.join(c.x(), keeps_zero=False)
    return layers.softmax(c.b, c.x(), axis, allowed)


@operator("CumSum", primitives="Window", constants="computed", keeps_zero=True, positions="running")
@operator("CumProd", primitives="Window", constants="computed", keeps_zero=False)
def cumulate(c: OpCall) -> Result:
    axis = int(c.array(1).reshape(-1)[0]) % len(c.shape())
    n = c.shape()[axis]
    x = c.x()
    if n > LONGEST_RUN or n * n > c.scope.state.budget.tables // 2:
        y = c.b.mix(x, (axis,))
    else:
        taps: list[Taps | None] = [None] * len(c.shape())
        taps[axis] = _running(n, bool(c.attr("exclusive", 0)), bool(c.attr("reverse", 0)))
        y = c.b.window(x, taps)
    return c.b.join(y, keeps_zero=c.keeps_zero)


def _running(n: int, exclusive: bool, reverse: bool) -> Taps:
    tap, out = np.arange(n)[:, None], np.arange(n)[None, :]
    before = tap > out if reverse else tap < out
    return np.where(before if exclusive else before | (tap == out), tap, -1)


@operator("Det", primitives="Mix")
def determinant(c: OpCall) -> Result:
    return c.b.reduce(c.x(), (-2, -1), keepdim=False)


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", primitives="Mix")
def loss(c: OpCall) -> Result:
    """Scores are [N, classes, ...], targets [N, ...]."""
    x = c.x()
    scores = c.b.mix(x, (1,), keeps_zero=False)
    rest = [c.x(1), *([c.b.reduce(c.x(2), None, keepdim=False)] if c.has(2) else [])]
    picked = c.b.join(c.b.reduce(scores, (1,), keepdim=False), *rest, keeps_zero=False)
    each = c.attr("reduction", "mean") == "none"
    value = picked if each else c.b.reduce(picked, None, keepdim=False, keeps_zero=False)
    return [value, scores] if len(c.node.output) > 1 else value
