"""Elementwise operators. Whether zeros stay zero is found by running the operator, except for products, which are
gates, and for a few whose operands have different roles."""

from __future__ import annotations

from dataclasses import replace

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.op_call import OpCall
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.tensors import nonzero, very_negative
from effsparse_cli.formats.torch.values import Arg, ConstantValue, LiveValue, Result, Value

operator = family("elementwise", folding="elementwise", result_size=costs.broadcast)


@operator("clone", "detach", "alias", "_to_copy", "lift_fresh", "lift_fresh_copy", folding="copies")
@operator("contiguous", "to", folding="copies", view_or_copy=True)
@operator("type_as", folding="copies", result_size=costs.total)
@operator("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "rrelu", effect="random")
@operator(
    "positive", "resolve_conj", "resolve_neg", "convert_element_type", "_conj", "conj", "conj_physical",
    "requires_grad",
)  # fmt: skip
def identity(call: OpCall, x: LiveValue | ConstantValue, *_: Arg) -> LiveValue | ConstantValue:
    """Nothing changes on paths, blocked positions included. Dropout is the identity in evaluation mode. A constant can
    be cast to the type of something live."""
    return call.from_shapes() if isinstance(x, ConstantValue) else replace(x)


@operator("native_dropout", effect="random")
def native_dropout(call: OpCall, x: LiveValue, *_: Arg) -> Result:
    return call.with_unused(replace(x))


def keeps_zero(call: OpCall) -> bool:
    """Whether the result is zero if all operands are zeros of either sign; atan2(-0.0, -0.0) is not."""

    def zero(value: Value) -> torch.Tensor:
        dtype = value.dtype if isinstance(value, LiveValue) else value.tensor.dtype
        return torch.zeros((), dtype=torch.float32 if dtype.is_floating_point else dtype)

    def minus_zero(value: Value) -> torch.Tensor:
        plus = zero(value)
        return -plus if plus.is_floating_point() else plus

    try:
        return not any(bool(nonzero(call.evaluate(each)).any()) for each in (zero, minus_zero))
    except (RuntimeError, TypeError, NotImplementedError, LoadError):
        return False


@operator(
    "relu", "relu6", "gelu", "silu", "mish", "tanh", "elu", "selu", "celu", "leaky_relu", "hardtanh", "hardswish",
    "hardsigmoid", "sigmoid", "log_sigmoid", "softplus", "softshrink", "hardshrink",
    "threshold", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh", "sqrt", "rsqrt", "square", "abs", "sign", "sgn", "floor", "ceil",
    "round", "trunc", "fix", "frac", "reciprocal", "erf", "erfc", "erfinv", "lgamma", "digamma", "i0", "sinc", "logit",
    "nan_to_num", "isnan", "isinf", "isfinite", "logical_not", "bitwise_not", "clamp", "clip", "clamp_min", "clamp_max",
    "pow", "float_power", "rsub", "subtract", "maximum", "minimum", "fmax", "fmin", "max.other", "min.other",
    "atan2", "hypot", "logaddexp", "logaddexp2", "eq", "ne", "lt", "le", "gt", "ge", "logical_or", "logical_xor",
    "bitwise_or", "bitwise_xor", "__or__", "__xor__", "lerp", "copysign", "nextafter", "heaviside",
    "polar", "complex", "real", "imag", "angle", "deg2rad", "rad2deg", "special_expm1", "xlogy",
    "fake_quantize_per_tensor_affine", "smooth_l1_loss", "isclose", "gcd", "ldexp",
    "isposinf", "isneginf",
)  # fmt: skip
@operator("neg", folding="scales")
@operator("sub", folding="adds")
@operator("bernoulli", effect="random")
def pointwise(call: OpCall, *args: Arg) -> int:
    """Live where one of the operands is."""
    nodes, keeps = [call.node(value) for value in call.values()], keeps_zero(call)
    if keeps and len(nodes) == 1 and call.b.shape(nodes[0]) == call.shape:
        return nodes[0]
    return call.b.expand(call.b.join(*nodes, keeps_zero=keeps), call.shape)


@operator("add", folding="adds")
def add(call: OpCall, *args: Arg) -> LiveValue:
    """A constant of minus infinity blocks a position for a softmax that follows."""
    blocked = None
    for value in call.values() if args[-1] == 1 else ():
        found = value.blocked if isinstance(value, LiveValue) else very_negative(value.tensor)
        if found is not None:
            found = found.broadcast_to(call.shape)
            blocked = found if blocked is None else blocked | found
    return LiveValue(pointwise(call, *args), call.dtype, blocked)


@operator("mul", folding="masks")
@operator("multiply", "logical_and", "bitwise_and", "__and__")
def multiply(call: OpCall, a: Arg, b: Arg, *_: Arg) -> Result:
    """A gate: zero in one operand stops the other. A number that is not zero changes nothing."""
    if not isinstance(b, LiveValue | ConstantValue):
        a, b = b, a
    if not isinstance(a, LiveValue | ConstantValue):
        return replace(b, blocked=_scaled_blocked(b, a)) if a != 0 else call.b.times(b.node, call.node(a))
    for x, c in ((a, b), (b, a)):
        if isinstance(c, ConstantValue) and isinstance(x, LiveValue) and passes(call, c):
            return call.b.expand(x.node, call.shape)
    return call.b.times(call.node(a), call.node(b))


def _scaled_blocked(x: LiveValue, number: Arg) -> torch.Tensor | None:
    """Minus infinity times a positive number stays minus infinity."""
    return x.blocked if isinstance(number, int | float) and number > 0 else None


def passes(call: OpCall, scale: ConstantValue, norm: bool = False) -> bool:
    """Whether a scale cuts nothing: it has no zero, or it belongs to a norm and norms do not cut."""
    of_norm = norm or (scale.tensor.ndim <= 1 and call.is_parameter(scale))
    return bool(nonzero(scale.tensor).all()) or (of_norm and not call.norms_cut)


@operator("div", folding="scales")
@operator("true_divide", "divide", "floor_divide", "fmod", "remainder")
def divide(call: OpCall, a: Arg, b: Arg, *_: Arg) -> Result:
    """Zero divided by anything but zero is zero; dividing by a constant changes nothing on paths."""
    if not isinstance(b, LiveValue | ConstantValue):
        return replace(a, blocked=_scaled_blocked(a, b)) if b else call.b.join(call.node(a), keeps_zero=False)
    return _quotient(call, a, b)


def _quotient(call: OpCall, a: Arg, b: LiveValue | ConstantValue) -> int:
    if isinstance(b, LiveValue):
        return call.b.divide(call.node(a), call.node(b))
    whole = call.b.expand(call.node(a), call.shape)
    zeros = ~nonzero(b.tensor)
    return call.b.join(whole, call.b.constant(zeros)) if zeros.any() else whole


@operator("prelu", "_prelu_kernel")
def prelu(call: OpCall, x: Arg, slope: Arg) -> Result:
    """Zero stays zero and everything else passes, unless the slope depends on the input."""
    return NotImplemented if isinstance(slope, LiveValue) else call.node(x)


@operator("bucketize")
def bucketize(call: OpCall, x: Arg, borders: Arg, *_: Arg) -> int:
    anywhere = call.b.reduce(call.node(borders), None, keepdim=False)
    return call.b.join(call.node(x), anywhere, keeps_zero=False)


@operator("addcmul")
def addcmul(call: OpCall, x: Arg, a: Arg, b: Arg, value: Arg) -> int:
    return call.b.join(call.node(x), call.b.times(call.node(a), call.node(b)))


@operator("addcdiv")
def addcdiv(call: OpCall, x: Arg, a: Arg, b: Arg, value: Arg) -> int:
    return call.b.join(call.node(x), _quotient(call, a, b))


@operator("glu")
def glu(call: OpCall, x: Arg, dim: int) -> int:
    node, n = call.node(x), call.shape[dim]
    gate = call.b.join(call.b.slice(node, dim, n, None), keeps_zero=False)
    return call.b.times(call.b.slice(node, dim, 0, n), gate)


@operator("where")
def where(call: OpCall, condition: Arg, a: Arg, b: Arg) -> LiveValue:
    """With a constant condition only the selected side matters."""
    shape, dtype = call.shape, call.dtype
    sides = [call.b.expand(call.node(side), shape) for side in (a, b)]
    if not isinstance(condition, ConstantValue):
        choice = call.b.join(call.node(condition), keeps_zero=False)
        return LiveValue(call.b.times(choice, call.b.join(*sides)), dtype)
    chosen = condition.tensor.cpu().bool().broadcast_to(shape)
    node = call.b.where(nonzero(chosen), *sides)
    blocked = (_blocked(a, shape) & chosen) | (_blocked(b, shape) & ~chosen)
    return LiveValue(node, dtype, blocked if bool(blocked.any()) else None)


def _blocked(side: Arg, shape: tuple[int, ...]) -> torch.Tensor:
    if isinstance(side, LiveValue):
        found = side.blocked
    else:
        tensor = side.tensor if isinstance(side, ConstantValue) else torch.tensor(float(side))
        found = very_negative(tensor)
    return torch.zeros(shape, dtype=torch.bool) if found is None else found.broadcast_to(shape)


@operator("masked_fill")
def masked_fill(call: OpCall, x: Arg, mask: Arg, value: Arg) -> LiveValue:
    return where(call, mask, value, x)


@operator("zeros_like", "ones_like", "full_like", "empty_like", shape_only=True)
@operator("rand_like", "randn_like", "randint_like", shape_only=True, effect="random")
@operator("new_zeros", "new_ones", "new_full", "new_empty", shape_only=True, result_size=costs.filled)
@operator("new_empty_strided", shape_only=True, result_size=None)
@operator("zero", "fill.Scalar")
def new_tensor(call: OpCall, *_: Arg) -> ConstantValue:
    """A new tensor that takes only its shape from a live one is constant."""
    return call.from_shapes()


@operator("fill", "copy")
def copy(call: OpCall, x: Arg, source: Arg, *_: Arg) -> int:
    return call.b.expand(call.node(source), call.shape)
