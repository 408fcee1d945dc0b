"""Operators that work position by position, broadcasting: operands stand or fall together along every axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, helper

from effsparse_cli.compaction.onnx.table import NoRuleError, Use, rule
from effsparse_cli.compaction.positions import Array, Facts, Ids, Value
from effsparse_cli.folding.onnx.run import run_one
from effsparse_cli.formats.onnx.fold import evaluate
from effsparse_cli.formats.onnx.stored import nonzero
from effsparse_cli.graph.primitives import Bools

NUMPY_BROADCASTING = 7
"""The opset since which operands are aligned at their last axes."""
IR = 8

ELEMENTWISE = (
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseNot", "BitwiseOr",
    "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu",
    "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less",
    "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal",
    "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum",
    "Swish", "Tan", "Tanh", "ThresholdedRelu", "Xor",
)  # fmt: skip
PRODUCTS = ("And", "BitwiseAnd", "Mul")


def broadcast(facts: Facts, values: Sequence[Value], shape: Sequence[int]) -> tuple[Ids, ...]:
    """The result's axes. An axis that is spread is used by every position of the result, so it stays."""
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


def spread_zeros(value: Value, shape: Sequence[int]) -> list[Bools]:
    """Per axis of the result, where this operand is always zero."""
    rank = len(shape)
    found = []
    for axis, size in enumerate(shape):
        own = axis - rank + len(value.axes)
        zero = value.zero(own) if own >= 0 else np.full(1, value.all_zero)
        found.append(np.broadcast_to(zero, (size,)))
    return found


@rule(*ELEMENTWISE)
def elementwise(use: Use) -> Value:
    """Zero where all operands that are not constant are zero, if the operator gives zero there."""
    axes = _joined(use)
    found = _of_zero(use)
    live = [spread_zeros(value, use.shape) for value in use.given if value.array is None]
    if found is None or not live:
        return Value(axes, tuple(np.zeros(n, bool) for n in use.shape))
    zeros = []
    for axis, size in enumerate(use.shape):
        others = tuple(i for i in range(found.ndim) if i != axis)
        zeros.append(every([np.broadcast_to(found.all(axis=others), (size,)), *(each[axis] for each in live)]))
    return Value(axes, tuple(zeros))


def _of_zero(use: Use) -> Bools | None:
    """Where the result is zero when every operand that is not constant is zero. The operator itself says: it is run on
    zeros and on the constants. None if it cannot be run."""
    inputs: list[Array | None] = []
    for value, kind in zip(use.inputs, use.kinds, strict=True):
        if value is None or value.array is not None:
            inputs.append(value.array if value is not None else None)
        elif kind is None:
            return None
        else:
            inputs.append(np.zeros((1,) * len(value.axes), kind))
    try:
        found = _run(use, inputs)
        return np.broadcast_to(~nonzero(found), (1,) * (len(use.shape) - found.ndim) + found.shape)
    except Exception:  # onnx's reference raises whatever numpy does: nothing is known then
        return None


def _run(use: Use, inputs: Sequence[Array | None]) -> Array:
    """By onnx's reference, which survives integers over zero; by onnxruntime if the reference lacks it (Gelu)."""
    try:
        return evaluate(use.node, inputs, use.opset)[0]
    except RuntimeError:
        if len(inputs) > 1:
            raise
        return run_one(use.node, inputs, ModelProto(ir_version=IR, opset_import=[helper.make_opsetid("", use.opset)]))


@rule(*PRODUCTS)
def product(use: Use) -> Value:
    """Zero where any operand is, unless a constant is infinite or not a number."""
    axes = _joined(use)
    if any(value.array is not None and not _is_finite(value.array) for value in use.given):
        return Value(axes, tuple(np.zeros(n, bool) for n in use.shape))
    per_axis = zip(*(spread_zeros(value, use.shape) for value in use.given), strict=True)
    return Value(axes, tuple(np.asarray(np.logical_or.reduce(zeros)) for zeros in per_axis))


@rule("Where")
def where(use: Use) -> Value:
    """Zero where both sides are."""
    axes = _joined(use)
    per_axis = zip(*(spread_zeros(value, use.shape) for value in use.given[1:]), strict=True)
    return Value(axes, tuple(every(zeros) for zeros in per_axis))


@rule("CastLike")
def cast_like(use: Use) -> Value:
    """Of the second input only the type matters. As text, zero is not zero."""
    x, to = use.x(), use.kinds[1]
    numeric = to is not None and to.kind not in "OSU"
    return Value(x.axes, tuple(x.zero(axis) & numeric for axis in range(len(use.shape))))


def _joined(use: Use) -> tuple[Ids, ...]:
    if use.opset < NUMPY_BROADCASTING and len(use.given) > 1:
        raise NoRuleError
    return broadcast(use.facts, use.given, use.shape)


def _is_finite(array: Array) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def every(zeros: Sequence[Bools]) -> Bools:
    return np.asarray(np.logical_and.reduce(zeros))


@rule("Dropout")
def dropout(use: Use) -> Value:
    """In evaluation it does nothing; the mask that it may give as well is left to be unknown."""
    use.rest(1)
    return Value(use.x().axes, tuple(use.x().zero(axis) for axis in range(len(use.shape))))


@rule("QuantizeLinear", "DequantizeLinear")
def quantised(use: Use) -> Value:
    """Scales and zero points are one for all, or one per position of an axis. Zero is whatever the constant says."""
    x, axis = use.x(), use.attr("axis", 1)
    for value in use.given[1:]:
        if value.axes and max(value.shape) > 1:
            if len(value.axes) > 1 or use.attr("block_size", 0) or not -len(x.axes) <= axis < len(x.axes):
                raise NoRuleError
            use.facts.join(x.axes[axis], value.axes[0])
        else:
            use.facts.need(*value.axes)
    return Value(x.axes, tuple(np.zeros(n, bool) for n in x.shape))
