"""Operators that work position by position, broadcasting: operands stand or fall together along every axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from effsparse_cli.compact.onnx.table import Rule, Use, rule
from effsparse_cli.compact.positions import Facts, Ids, Value
from effsparse_cli.graph.primitives import Bools

KEEP_ZERO = (
    "Abs", "Acos", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "Cast", "CastLike", "Ceil", "Celu", "Elu", "Erf",
    "Floor", "Gelu", "HardSwish", "Identity", "LeakyRelu", "Mish", "Neg", "PRelu", "Relu", "Round", "Selu", "Shrink",
    "Sign", "Sin", "Sinh", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
OF_ZERO_KNOWN_NOTHING = (
    "And", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cos", "Cosh", "Equal", "Exp", "Greater",
    "GreaterOrEqual", "HardSigmoid", "IsInf", "IsNaN", "Less", "LessOrEqual", "Log", "Mod", "Not", "Or", "Pow",
    "Reciprocal", "Sigmoid", "Softplus", "Xor",
)  # fmt: skip
ZERO_IF_ALL = ("Add", "Max", "Mean", "Min", "Sub", "Sum")


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


def elementwise(use: Use, values: Sequence[Value], combine: Callable[[Sequence[Bools]], Bools] | None) -> Value:
    """`combine` says from where operands are zero where the result is; None: nothing is known."""
    axes = broadcast(use.facts, use.given, use.shape)
    if combine is None:
        return Value(axes, tuple(np.zeros(n, bool) for n in use.shape))
    per_axis = zip(*(spread_zeros(value, use.shape) for value in values), strict=True)
    return Value(axes, tuple(combine(zeros) for zeros in per_axis))


def every(zeros: Sequence[Bools]) -> Bools:
    return np.asarray(np.logical_and.reduce(zeros))


def some(zeros: Sequence[Bools]) -> Bools:
    return np.asarray(np.logical_or.reduce(zeros))


def _register() -> None:
    first: Rule = lambda use: elementwise(use, [use.x()], every)  # noqa: E731
    for names, apply in (
        (KEEP_ZERO, first),
        (OF_ZERO_KNOWN_NOTHING, lambda use: elementwise(use, [], None)),
        (ZERO_IF_ALL, lambda use: elementwise(use, use.given, every)),
        (("Mul",), lambda use: elementwise(use, use.given, some)),
        (("Div",), first),
        (("Where",), lambda use: elementwise(use, use.given[1:], every)),
    ):
        rule(*names)(apply)


_register()


@rule("Clip")
def clip(use: Use) -> Value:
    """Keeps zero where zero lies between its bounds."""
    bounds = [use.attr("min"), use.attr("max")]
    for i, value in enumerate(use.inputs[1:]):
        if value is not None:
            bounds[i] = float(value.array.reshape(-1)[0]) if value.array is not None else np.nan
    low, high = bounds
    keeps = (low is None or low <= 0) and (high is None or high >= 0)
    return elementwise(use, [use.x()], every if keeps else None)


@rule("Dropout")
def dropout(use: Use) -> Value:
    """In evaluation it does nothing; the mask that it may give as well is left to be unknown."""
    use.rest(1)
    return Value(use.x().axes, tuple(use.x().zero(axis) for axis in range(len(use.shape))))


@rule("QuantizeLinear", "DequantizeLinear")
def quantised(use: Use) -> Value:
    """Scales and zero points are one for all, or one per position of an axis. Zero is whatever the constant says."""
    x = use.x()
    axis = use.attr("axis", 1)
    for value in use.given[1:]:
        along = x.axes[axis] if len(value.axes) == 1 and use.attr("block_size", 0) == 0 else None
        if along is not None and len(along) == len(value.axes[0]) and len(along) > 1:
            use.facts.join(along, value.axes[0])
        else:
            use.facts.need(*value.axes)
            if value.axes and max(value.shape) > 1:
                use.facts.need(*x.axes)
    return Value(x.axes, tuple(np.zeros(n, bool) for n in x.shape))
