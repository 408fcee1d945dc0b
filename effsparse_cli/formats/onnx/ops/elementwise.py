"""Elementwise operators: one input, several joined, gates (products), and selection by a condition."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.stored import Array, nonzero
from effsparse_cli.formats.onnx.table import MICROSOFT, MisfitError, Result, lowers
from effsparse_cli.formats.onnx.values import Known, Live
from effsparse_cli.graph.primitives import Bools

MINUS_INFINITY = -1e30
"""A score with this or less added to it has the weight zero after a softmax, in every float type."""

WITHOUT_ZERO = (TensorProto.STRING, getattr(TensorProto, "FLOAT8E8M0", -1))
ZERO_TO_ZERO = (
    "Abs", "Asin", "Asinh", "Atan", "Atanh", "BitCast", "Ceil", "Celu", "Elu", "Erf", "Floor", "Gelu", "HardSwish",
    "IsInf", "IsNaN", "LeakyRelu", "Mish", "Neg", "Relu", "Round", "Selu", "Sign", "Sin", "Sinh", "Softsign",
    "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
ZERO_TO_CONSTANT = (
    "Acos", "Acosh", "BitwiseNot", "Cos", "Cosh", "Exp", "Log", "Not", "Reciprocal", "Sigmoid", "Softplus",
)  # fmt: skip


@lowers(*ZERO_TO_ZERO, primitive="Join", folding="elementwise")
@lowers("QuickGelu", "FastGelu", "Gelu", "BiasGelu", domain=MICROSOFT, primitive="Join")
def keeps_zero(c: Call) -> Result:
    return c.b.join(*c.xs())


@lowers(*ZERO_TO_CONSTANT, primitive="Join", folding="elementwise")
def loses_zero(c: Call) -> Result:
    return c.b.join(c.x(), keeps_zero=False)


@lowers("Shrink", primitive="Join", folding="elementwise")
def shrink(c: Call) -> Result:
    """With a negative threshold even zero is beyond it, and is moved by the bias."""
    return c.b.join(c.x(), keeps_zero=c.attr("lambd", 0.5) >= 0 or c.attr("bias", 0.0) == 0)


@lowers("HardSigmoid", primitive="Join", folding="elementwise")
def hard_sigmoid(c: Call) -> Result:
    return c.b.join(c.x(), keeps_zero=c.attr("beta", 0.5) <= 0)


@lowers("Cast", "CastLike", primitive="Join", folding="elementwise")
def cast(c: Call) -> Result:
    """To a string, a zero is the text "0"; and one type of floats has no zero."""
    like = c.known(1)
    x = c.value(0)
    y = c.b.join(c.x(), keeps_zero=c.attr("to") not in WITHOUT_ZERO and not (like is not None and like.text))
    return Live(y, x.allowed if isinstance(x, Live) else None)


@lowers("Clip", primitive="Join", folding="elementwise")
def clip(c: Call) -> Result:
    bounds = [i for i in (1, 2) if c.is_live(i)]
    low = float(c.array(1).reshape(-1)[0]) if c.known(1) is not None else c.attr("min", -np.inf)
    high = float(c.array(2).reshape(-1)[0]) if c.known(2) is not None else c.attr("max", np.inf)
    return c.b.join(c.x(), *(c.x(i) for i in bounds), keeps_zero=not bounds and low <= 0 <= high)


@lowers("PRelu", primitive="Join, Product", folding="elementwise")
def prelu(c: Call) -> Result:
    if not c.is_live(1):
        return c.b.join(c.x()) if len(c.shape(1)) <= len(c.shape()) else c.b.join(c.x(), c.b.times(c.x(), c.x(1)))
    return c.b.join(c.x(), c.b.times(c.x(), c.x(1)))


@lowers("Add", "Sum", primitive="Join", folding="elementwise")
def add(c: Call) -> Result:
    """A constant of minus infinity blocks its position for a softmax that follows."""
    allowed: Bools | None = None
    for value in c.inputs:
        more = value.allowed if isinstance(value, Live) else _finite(value) if isinstance(value, Known) else None
        if more is not None:
            allowed = more if allowed is None else allowed & more
    return Live(c.b.join(*_aligned(c)), allowed)


@lowers(
    "Sub",
    "Mean",
    "Max",
    "Min",
    "Or",
    "Xor",
    "BitwiseOr",
    "BitwiseXor",
    "Greater",
    "Less",
    primitive="Join",
    folding="elementwise",
)
def join(c: Call) -> Result:
    return c.b.join(*_aligned(c))


@lowers("Equal", "GreaterOrEqual", "LessOrEqual", primitive="Join", folding="elementwise")
def compare(c: Call) -> Result:
    return c.b.join(*_aligned(c), keeps_zero=False)


@lowers("Mul", "And", "BitwiseAnd", primitive="Product", folding="elementwise")
def multiply(c: Call) -> Result:
    return c.b.times(*_aligned(c))


@lowers("SwiGLU", primitive="Product")
def swiglu(c: Call) -> Result:
    return c.b.times(c.x(0), c.x(1))


@lowers("Div", "Mod", "BitShift", primitive="Product", folding="elementwise")
def divide(c: Call) -> Result:
    """Zero stays zero, whatever it is divided or shifted by."""
    return c.b.divide(*_aligned(c))


@lowers("Pow", primitive="Product, Join", folding="elementwise")
def power(c: Call) -> Result:
    """To the power zero is one, whatever the base; to a negative power zero is no zero."""
    base, exponent = _aligned(c)
    if c.is_live(1):
        return c.b.join(base, exponent, keeps_zero=False)
    powers = c.array(1)
    raised = c.b.times(base, exponent)
    ones = np.asarray(powers <= 0)
    return c.b.join(raised, c.b.constant(ones)) if ones.any() else raised


@lowers("Where", primitive="Product, Join", folding="elementwise")
def where(c: Call) -> Result:
    """Each side matters only where the condition can choose it."""
    condition = c.known(0)
    if condition is None:
        x, y = c.x(1), c.x(2)
        chosen = c.b.times(c.x(0), x)
        return c.b.join(chosen, c.b.times(c.b.join(c.x(0), keeps_zero=False), y))
    picked = nonzero(condition.array)
    if (picked.all() or not picked.any()) and _same_shape(c):
        return c.value(1 if picked.all() else 2)
    allowed: Bools | None = None
    for side, here in ((c.get(1), picked), (c.get(2), ~picked)):
        finite = side.allowed if isinstance(side, Live) else _finite(side) if isinstance(side, Known) else None
        if finite is not None:
            allowed = finite | ~here if allowed is None else allowed & (finite | ~here)
    return Live(c.b.select(picked, c.x(1), c.x(2)), allowed)


def _same_shape(c: Call) -> bool:
    return len({c.shape(0), c.shape(1), c.shape(2)}) == 1 or (c.shape(0) == () and c.shape(1) == c.shape(2))


def _finite(value: Known) -> Bools | None:
    array: Array = value.array
    if array.dtype.kind in "biuOSU":
        return None
    low = array <= MINUS_INFINITY
    return ~low if low.any() else None


def _aligned(c: Call) -> list[int]:
    """The inputs as nodes. Before opset 7 the second one was aligned at an axis, not at the end."""
    nodes = c.xs()
    axis = c.attr("axis")
    if c.attr("broadcast", 0) and axis is not None and c.opset < 7:
        after = len(c.shape(0)) - axis % len(c.shape(0)) - len(c.shape(1))
        nodes[1] = c.b.reshape(nodes[1], (*c.shape(1), *(1,) * after))
    shapes = [c.b.shape(node) for node in nodes]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise MisfitError(f"{' and '.join(str(list(s)) for s in shapes)} do not fit together") from None
    return nodes
