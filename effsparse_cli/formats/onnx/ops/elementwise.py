"""Elementwise operators: of one input, joins of several, products (gates), and selection by a condition."""

from __future__ import annotations

from functools import partial

import numpy as np
from onnx import TensorProto

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, Value
from effsparse_cli.formats.onnx.operators import MICROSOFT, MisfitError, Result, operator
from effsparse_cli.formats.onnx.tensors.stored import nonzero
from effsparse_cli.graph.primitives import Bools

MINUS_INFINITY = -1e30
"""A score plus this or less has weight zero after a softmax, in every float type."""

WITHOUT_ZERO = (TensorProto.STRING, getattr(TensorProto, "FLOAT8E8M0", -1))


elementwise = partial(operator, primitives="Join", constants="elementwise", positions="elementwise")


@elementwise(
    "Abs", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Elu", "Erf", "Floor", "Gelu", "HardSwish", "IsInf",
    "IsNaN", "LeakyRelu", "Mish", "Relu", "Round", "Selu", "Sign", "Sin", "Sinh", "Softsign", "Sqrt", "Swish", "Tan",
    "Tanh", "ThresholdedRelu",
    keeps_zero=True,
)  # fmt: skip
@elementwise(
    "Acos", "Acosh", "BitwiseNot", "Cos", "Cosh", "Exp", "Log", "Not", "Reciprocal", "Sigmoid", "Softplus",
    keeps_zero=False,
)  # fmt: skip
@elementwise("Neg", keeps_zero=True, keeps_masks=True)
@operator("BitCast", primitives="Join", constants="elementwise", keeps_zero=True)
@operator("QuickGelu", "FastGelu", "Gelu", "BiasGelu", domain=MICROSOFT, primitives="Join", keeps_zero=True)
def unary(c: OpCall) -> Result:
    return c.b.join(*c.xs(), keeps_zero=c.keeps_zero)


@elementwise("Shrink")
def shrink(c: OpCall) -> Result:
    """With a negative threshold, zero is beyond it too and is moved by the bias."""
    return c.b.join(c.x(), keeps_zero=c.attr("lambd", 0.5) >= 0 or c.attr("bias", 0.0) == 0)


@elementwise("HardSigmoid")
def hard_sigmoid(c: OpCall) -> Result:
    return c.b.join(c.x(), keeps_zero=c.attr("beta", 0.5) <= 0)


@elementwise("Cast", keeps_masks=True, same_values=True)
@elementwise("CastLike", positions="cast_like", keeps_masks=True, no_data=(1,))
def cast(c: OpCall) -> Result:
    """As a string, zero is the text "0". One type of floats has no zero."""
    like = c.constant(1)
    x = c.value(0)
    y = c.b.join(c.x(), keeps_zero=c.attr("to") not in WITHOUT_ZERO and not (like is not None and like.text))
    return LiveValue(y, x.allowed if isinstance(x, LiveValue) else None)


@elementwise("Clip")
def clip(c: OpCall) -> Result:
    bounds = [i for i in (1, 2) if c.is_live(i)]
    low = float(c.array(1).reshape(-1)[0]) if c.constant(1) is not None else c.attr("min", -np.inf)
    high = float(c.array(2).reshape(-1)[0]) if c.constant(2) is not None else c.attr("max", np.inf)
    return c.b.join(c.x(), *(c.x(i) for i in bounds), keeps_zero=not bounds and low <= 0 <= high)


@elementwise("PRelu", primitives="Join, Product")
def prelu(c: OpCall) -> Result:
    if not c.is_live(1) and len(c.shape(1)) <= len(c.shape()):
        return c.b.join(c.x())
    return c.b.join(c.x(), c.b.times(c.x(), c.x(1)))


@elementwise("Add", adds=True, names_layers=False, neutral_zeros=(0, 1))
@elementwise("Sum", adds=True)
def add(c: OpCall) -> Result:
    """A constant of minus infinity masks its position for a softmax that follows."""
    allowed: Bools | None = None
    for value in c.inputs:
        more = _allowed(value)
        if more is not None:
            allowed = more if allowed is None else allowed & more
    return LiveValue(c.b.join(*_aligned(c)), allowed)


@elementwise("Sub", adds=True, names_layers=False, neutral_zeros=(1,))
@elementwise("Mean", adds=True)
@elementwise("Max", "Min", "Or", "Xor", "BitwiseOr", "BitwiseXor", "Greater", "Less")
def join(c: OpCall) -> Result:
    return c.b.join(*_aligned(c))


@elementwise("Equal", "GreaterOrEqual", "LessOrEqual")
def compare(c: OpCall) -> Result:
    return c.b.join(*_aligned(c), keeps_zero=False)


@elementwise("Mul", primitives="Product", positions="product", keeps_masks=True, applies_masks=True)
@elementwise("And", "BitwiseAnd", primitives="Product", positions="product")
def multiply(c: OpCall) -> Result:
    return c.b.times(*_aligned(c))


@operator("SwiGLU", primitives="Product")
def swiglu(c: OpCall) -> Result:
    return c.b.times(c.x(0), c.x(1))


@elementwise("Div", primitives="Product", keeps_masks=True, names_layers=False)
@elementwise("Mod", "BitShift", primitives="Product")
def divide(c: OpCall) -> Result:
    """Zero stays zero, whatever it is divided or shifted by."""
    return c.b.divide(*_aligned(c))


@elementwise("Pow", primitives="Product, Join")
def power(c: OpCall) -> Result:
    """Any base to the power of zero is one, and zero to a negative power is infinite."""
    base, exponent = _aligned(c)
    if c.is_live(1):
        return c.b.join(base, exponent, keeps_zero=False)
    powers = c.array(1)
    raised = c.b.times(base, exponent)
    ones = np.asarray(powers <= 0)
    return c.b.join(raised, c.b.constant(ones)) if ones.any() else raised


@elementwise("Where", primitives="Product, Join", positions="where", condition=0, names_layers=False)
def where(c: OpCall) -> Result:
    """Each side matters only where the condition can select it."""
    condition = c.constant(0)
    if condition is None:
        x, y = c.x(1), c.x(2)
        chosen = c.b.times(c.x(0), x)
        return c.b.join(chosen, c.b.times(c.b.join(c.x(0), keeps_zero=False), y))
    picked = nonzero(condition.array)
    shapes = {c.shape(1), c.shape(2)} | ({c.shape(0)} if c.shape(0) else set())
    if (picked.all() or not picked.any()) and len(shapes) == 1:
        return c.value(1 if picked.all() else 2)
    allowed: Bools | None = None
    for side, here in ((c.get(1), picked), (c.get(2), ~picked)):
        more = _allowed(side)
        if more is not None:
            allowed = more | ~here if allowed is None else allowed & (more | ~here)
    return LiveValue(c.b.where(picked, c.x(1), c.x(2)), allowed)


def _allowed(value: Value | None) -> Bools | None:
    """Return where a value is not minus infinity, if it is somewhere."""
    if isinstance(value, LiveValue):
        return value.allowed
    array = value.array if isinstance(value, ConstantValue) else None
    low = array <= MINUS_INFINITY if array is not None and array.dtype.kind not in "biuOSU" else None
    return ~low if low is not None and low.any() else None


def _aligned(c: OpCall) -> list[int]:
    """Return the inputs as nodes. Before opset 7, the second one may be aligned at an axis."""
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
