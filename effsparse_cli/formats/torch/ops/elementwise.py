"""Elementwise operators: whether zero stays zero is found by asking the operator itself, except for products,
which are gates, and for the few whose operands play different parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.lowering.lowerer import Lowering
from effsparse_cli.formats.torch.operators import family
from effsparse_cli.formats.torch.values import Arg, Const, Live, Lowered, Value, nonzero, very_negative

operator = family("elementwise", folding="elementwise", result_size=costs.broadcast)


@operator("clone", "detach", "alias", "_to_copy", "lift_fresh", "lift_fresh_copy", folding="copies")
@operator("contiguous", "to", folding="copies", view_or_copy=True)
@operator("type_as", folding="copies", result_size=costs.total)
@operator("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "rrelu", effect="random")
@operator(
    "positive", "resolve_conj", "resolve_neg", "convert_element_type", "_conj", "conj", "conj_physical",
    "requires_grad",
)  # fmt: skip
def identity(low: Lowering, x: Live | Const, *_: Arg) -> Live | Const:
    """The same on paths, blocked positions too. Dropout is the identity in evaluation mode. A constant comes
    here when it is given the type of something live."""
    return low.by_shape_only() if isinstance(x, Const) else replace(x)


@operator("native_dropout", effect="random")
def native_dropout(low: Lowering, x: Live, *_: Arg) -> list[Any]:
    return [replace(x), low.b.constant(True, low.b.shape(x.node))]


def zero_stays(low: Lowering) -> bool:
    """Does the operator give zero when all its tensors are zero, of either sign? atan2(-0.0, -0.0) is not."""

    def zero(value: Value) -> torch.Tensor:
        dtype = value.dtype if isinstance(value, Live) else value.tensor.dtype
        return torch.zeros((), dtype=torch.float32 if dtype.is_floating_point else dtype)

    def minus_zero(value: Value) -> torch.Tensor:
        found = zero(value)
        return -found if found.is_floating_point() else found

    try:
        return not any(bool(nonzero(low.call.evaluate(each)).any()) for each in (zero, minus_zero))
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
def pointwise(low: Lowering, *args: Arg) -> int:
    """Anything elementwise: live where one of its tensors is."""
    return joined(low, zero_stays(low))


def joined(low: Lowering, keeps_zero: bool) -> int:
    nodes = [low.node(value) for value in low.call.values()]
    if keeps_zero and len(nodes) == 1 and low.b.shape(nodes[0]) == low.call.shape:
        return nodes[0]
    return low.b.expand(low.b.join(*nodes, keeps_zero=keeps_zero), low.call.shape)


@operator("add", folding="adds")
def add(low: Lowering, *args: Arg) -> Live:
    """Adding a constant minus infinity blocks a position for a later softmax."""
    blocked = None
    for value in low.call.values() if args[-1] == 1 else ():
        found = value.blocked if isinstance(value, Live) else very_negative(value.tensor)
        if found is not None:
            found = found.broadcast_to(low.call.shape)
            blocked = found if blocked is None else blocked | found
    return Live(pointwise(low, *args), low.call.results[0].dtype, blocked)


@operator("mul", folding="masks")
@operator("multiply", "logical_and", "bitwise_and", "__and__")
def multiply(low: Lowering, a: Arg, b: Arg, *_: Arg) -> Lowered:
    """A gate: zero on one side stops the other. A number that is not zero changes nothing."""
    if not isinstance(b, Live | Const):
        a, b = b, a
    if not isinstance(a, Live | Const):
        return replace(b, blocked=_scaled(b, a)) if a != 0 else low.b.times(b.node, low.node(a))
    for x, c in ((a, b), (b, a)):
        if isinstance(c, Const) and isinstance(x, Live) and passes(low, c):
            return low.b.expand(x.node, low.call.shape)
    return low.b.times(low.node(a), low.node(b))


def _scaled(x: Live, number: Arg) -> torch.Tensor | None:
    """Minus infinity stays what it is under a positive factor."""
    return x.blocked if isinstance(number, int | float) and number > 0 else None


def passes(low: Lowering, scale: Const, norm: bool = False) -> bool:
    """Nothing is cut: no zero in it, or it is the scale of a norm and norms shall not cut."""
    of_norm = norm or (scale.tensor.ndim <= 1 and any(p.stored in low.stored.parameters for p in scale.parts))
    return bool(nonzero(scale.tensor).all()) or (of_norm and not low.options.norms_cut)


@operator("div", folding="scales")
@operator("true_divide", "divide", "floor_divide", "fmod", "remainder")
def divide(low: Lowering, a: Arg, b: Arg, *_: Arg) -> Lowered:
    """Zero over anything but zero is zero; dividing by a constant changes nothing on paths."""
    if not isinstance(b, Live | Const):
        return replace(a, blocked=_scaled(a, b)) if b else low.b.join(low.node(a), keeps_zero=False)
    return _quotient(low, a, b)


def _quotient(low: Lowering, a: Arg, b: Live | Const) -> int:
    if isinstance(b, Live):
        return low.b.divide(low.node(a), low.node(b))
    whole = low.b.expand(low.node(a), low.call.shape)
    nothing = ~nonzero(b.tensor)
    return low.b.join(whole, low.b.constant(nothing)) if nothing.any() else whole


@operator("prelu", "_prelu_kernel")
def prelu(low: Lowering, x: Arg, slope: Arg) -> Lowered:
    """Zero stays zero and everything else passes, whatever the slope, unless the slope depends on the input."""
    return NotImplemented if isinstance(slope, Live) else low.node(x)


@operator("bucketize")
def bucketize(low: Lowering, x: Arg, borders: Arg, *_: Arg) -> int:
    anywhere = low.b.reduce(low.node(borders), None, keepdim=False)
    return low.b.join(low.node(x), anywhere, keeps_zero=False)


@operator("addcmul")
def addcmul(low: Lowering, x: Arg, a: Arg, b: Arg, value: Arg) -> int:
    return low.b.join(low.node(x), low.b.times(low.node(a), low.node(b)))


@operator("addcdiv")
def addcdiv(low: Lowering, x: Arg, a: Arg, b: Arg, value: Arg) -> int:
    return low.b.join(low.node(x), _quotient(low, a, b))


@operator("glu")
def glu(low: Lowering, x: Arg, dim: int) -> int:
    node, n = low.node(x), low.call.shape[dim]
    gate = low.b.join(low.b.slice(node, dim, n, None), keeps_zero=False)
    return low.b.times(low.b.slice(node, dim, 0, n), gate)


@operator("where")
def where(low: Lowering, condition: Arg, a: Arg, b: Arg) -> Live:
    """With a known condition only the chosen side matters."""
    shape, dtype = low.call.shape, low.call.results[0].dtype
    sides = [low.b.expand(low.node(side), shape) for side in (a, b)]
    if not isinstance(condition, Const):
        choice = low.b.join(low.node(condition), keeps_zero=False)
        return Live(low.b.times(choice, low.b.join(*sides)), dtype)
    chosen = condition.tensor.cpu().bool().broadcast_to(shape)
    node = low.b.where(nonzero(chosen), *sides)
    blocked = (_blocked(a, shape) & chosen) | (_blocked(b, shape) & ~chosen)
    return Live(node, dtype, blocked if bool(blocked.any()) else None)


def _blocked(side: Arg, shape: tuple[int, ...]) -> torch.Tensor:
    if isinstance(side, Live):
        found = side.blocked
    else:
        tensor = side.tensor if isinstance(side, Const) else torch.tensor(float(side))
        found = very_negative(tensor)
    return torch.zeros(shape, dtype=torch.bool) if found is None else found.broadcast_to(shape)


@operator("masked_fill")
def masked_fill(low: Lowering, x: Arg, mask: Arg, value: Arg) -> Live:
    return where(low, mask, value, x)


@operator("zeros_like", "ones_like", "full_like", "empty_like", shape_only=True)
@operator("rand_like", "randn_like", "randint_like", shape_only=True, effect="random")
@operator("new_zeros", "new_ones", "new_full", "new_empty", shape_only=True, result_size=costs.filled)
@operator("new_empty_strided", shape_only=True, result_size=None)
@operator("zero", "fill.Scalar")
def fresh(low: Lowering, *_: Arg) -> Const:
    """A new tensor that has only its shape from a live one is known."""
    return low.by_shape_only()


@operator("fill")
def fill(low: Lowering, x: Arg, value: Arg) -> int:
    return low.b.expand(low.node(value), low.call.shape)


@operator("copy")
def copy(low: Lowering, x: Arg, source: Arg, *_: Arg) -> int:
    return low.b.expand(low.node(source), low.call.shape)
