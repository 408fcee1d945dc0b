"""Elementwise operators with broadcasting: operands correspond along every axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, helper

from effsparse_cli.compaction.onnx.op_positions import NoRuleError, OpPositions
from effsparse_cli.compaction.positions import Array, Ids, PositionFacts, ValuePositions
from effsparse_cli.folding.onnx.quantizers import can_expand
from effsparse_cli.folding.onnx.run import run_one
from effsparse_cli.formats.onnx.lowering.constants import evaluate
from effsparse_cli.formats.onnx.tensors.stored import nonzero
from effsparse_cli.graph.primitives import Bools

NUMPY_BROADCASTING = 7
"""First opset in which operands are aligned at their last axes."""
IR = 8


def broadcast(facts: PositionFacts, values: Sequence[ValuePositions], shape: Sequence[int]) -> tuple[Ids, ...]:
    """Return the axes of the result. A broadcast axis is used by every position of the result, so it stays."""
    axes: list[Ids] = []
    for axis, size in enumerate(shape):
        found: Ids | None = None
        for value in values:
            own = axis - len(shape) + len(value.axes)
            if own < 0:
                continue
            ids = value.axes[own]
            if len(ids) != size:
                facts.need(ids)
            elif found is None:
                found = ids
            else:
                facts.join(found, ids)
        axes.append(found if found is not None else facts.axis(size))
    return tuple(axes)


def broadcast_zeros(value: ValuePositions, shape: Sequence[int]) -> list[Bools]:
    """Return, for each axis of the result, where this operand is always zero."""
    rank = len(shape)
    found = []
    for axis, size in enumerate(shape):
        own = axis - rank + len(value.axes)
        zero = value.zero(own) if own >= 0 else np.full(1, value.all_zero)
        found.append(np.broadcast_to(zero, (size,)))
    return found


def elementwise(op: OpPositions) -> ValuePositions:
    """The result is zero where all live operands are, if the operator gives zero there."""
    axes = _joined(op)
    found = _zeros_at_zero(op)
    live = [broadcast_zeros(value, op.shape) for value in op.given if value.array is None]
    if found is None or not live:
        return op.never_zero(axes)
    zeros = []
    for axis, size in enumerate(op.shape):
        others = tuple(i for i in range(found.ndim) if i != axis)
        zeros.append(every([np.broadcast_to(found.all(axis=others), (size,)), *(each[axis] for each in live)]))
    return ValuePositions(axes, tuple(zeros))


def _zeros_at_zero(op: OpPositions) -> Bools | None:
    """Return where the result is zero if live operands are; None if the operator cannot be run."""
    inputs: list[Array | None] = []
    for value, kind in zip(op.inputs, op.kinds, strict=True):
        if value is None or value.array is not None:
            inputs.append(value.array if value is not None else None)
        elif kind is None:
            return None
        else:
            inputs.append(np.zeros((1,) * len(value.axes), kind))
    try:
        found = _run(op, inputs)
        return np.broadcast_to(~nonzero(found), (1,) * (len(op.shape) - found.ndim) + found.shape)
    except Exception:  # onnx's reference raises whatever numpy does: nothing is known then
        return None


def _run(op: OpPositions, inputs: Sequence[Array | None]) -> Array:
    """Run in onnx's reference implementation, which survives division of integers by zero, or in onnxruntime if the
    reference lacks the operator (Gelu)."""
    try:
        return evaluate(op.node, inputs, op.opset)[0]
    except RuntimeError:
        if len(inputs) > 1:
            raise
        return run_one(op.node, inputs, ModelProto(ir_version=IR, opset_import=[helper.make_opsetid("", op.opset)]))


def product(op: OpPositions) -> ValuePositions:
    """The result is zero where any operand is, unless a constant is infinite or NaN."""
    axes = _joined(op)
    if any(value.array is not None and not _is_finite(value.array) for value in op.given):
        return op.never_zero(axes)
    per_axis = zip(*(broadcast_zeros(value, op.shape) for value in op.given), strict=True)
    return ValuePositions(axes, tuple(np.asarray(np.logical_or.reduce(zeros)) for zeros in per_axis))


def quantizer(op: OpPositions) -> ValuePositions:
    """A QONNX quantizer is elementwise. One that onnxruntime cannot run keeps all of its positions."""
    if not can_expand(op.node):
        raise NoRuleError
    return elementwise(op)


def where(op: OpPositions) -> ValuePositions:
    """The result is zero where both sides are."""
    axes = _joined(op)
    per_axis = zip(*(broadcast_zeros(value, op.shape) for value in op.given[1:]), strict=True)
    return ValuePositions(axes, tuple(every(zeros) for zeros in per_axis))


def cast_like(op: OpPositions) -> ValuePositions:
    """Only the type of the second input matters. As text, zero is not zero."""
    x, to = op.x(), op.kinds[1]
    numeric = to is not None and to.kind not in "OSU"
    return ValuePositions(x.axes, tuple(x.zero(axis) & numeric for axis in range(len(op.shape))))


def _joined(op: OpPositions) -> tuple[Ids, ...]:
    if op.opset < NUMPY_BROADCASTING and len(op.given) > 1:
        raise NoRuleError
    return broadcast(op.facts, op.given, op.shape)


def _is_finite(array: Array) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def every(zeros: Sequence[Bools]) -> Bools:
    return np.asarray(np.logical_and.reduce(zeros))


def dropout(op: OpPositions) -> ValuePositions:
    """Dropout does nothing in evaluation mode. Nothing is known of its second output, the mask."""
    op.keep_inputs(1)
    return ValuePositions(op.x().axes, tuple(op.x().zero(axis) for axis in range(len(op.shape))))


def quantized(op: OpPositions) -> ValuePositions:
    """There is one scale and zero point for all, or one per position of an axis. The image of zero depends on them."""
    x, axis = op.x(), op.attr("axis", 1)
    for value in op.given[1:]:
        if value.axes and max(value.shape) > 1:
            if len(value.axes) > 1 or op.attr("block_size", 0) or not -len(x.axes) <= axis < len(x.axes):
                raise NoRuleError
            op.facts.join(x.axes[axis], value.axes[0])
        else:
            op.facts.need(*value.axes)
    return op.never_zero(x.axes)
