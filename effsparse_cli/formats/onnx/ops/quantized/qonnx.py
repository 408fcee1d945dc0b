"""QONNX: quantizers, which are elementwise, and channels-last forms of three operators. Quantizers are computed here in
numpy, because onnx's reference implementation lacks them; whether one keeps zero is found by evaluating it at zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue, Value
from effsparse_cli.formats.onnx.lowering.weights import is_weight
from effsparse_cli.formats.onnx.operators import OPERATORS, QONNX, MisfitError, NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.tensors.stored import Array, nonzero

Quantizer = Callable[[Sequence[Array], dict[str, Any]], Array]

ROUNDING: dict[str, Callable[[Array], Array]] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.copysign(np.ceil(np.abs(x)), x),
    "DOWN": np.trunc,
    "HALF_UP": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "HALF_DOWN": lambda x: np.copysign(np.ceil(np.abs(x) - 0.5), x),
}


def quantize(node: NodeProto, inputs: Sequence[Array | None]) -> list[Array]:
    """Evaluate one quantizer. Raises if an input is missing or the rounding mode is unknown."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    arrays = [np.asarray(array) for array in inputs if array is not None]
    if len(arrays) < len(inputs):
        raise ValueError(f"{node.op_type} has an empty input")
    with np.errstate(all="ignore"):
        return [np.asarray(QUANTIZERS[node.op_type](arrays, attributes), np.float32)]


def integer_quant(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """Round (x / scale + zero point), clipped to the integers of `bits` bits, and scale back."""
    x, scale, zero, bits = inputs
    signed = bool(attributes.get("signed", 1))
    low, high = integer_range(bits, signed, bool(attributes.get("narrow", 0)))
    scaled = x / scale + zero
    rounded = _rounding(attributes, "ROUND")(np.clip(scaled, low, high))
    if signed:
        # One signed bit has the values -1 and 1.
        rounded = np.where(bits == 1, np.where(scaled >= 0, 1, -1), rounded)
    return np.asarray((rounded - zero) * scale)


def bipolar_quant(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """Return minus or plus the scale, which is zero only where the scale is."""
    x, scale = inputs
    return np.where(x >= 0, scale, -scale)


def truncate(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """Drop low bits of an integer. Version 1 has five inputs, version 2 a scale and a range of its output too."""
    x, scale, zero = inputs[:3]
    whole, rounding = np.round(x / scale + zero), _rounding(attributes, "FLOOR")
    if len(inputs) == 5:
        return np.asarray((rounding(whole / 2.0 ** (inputs[3] - inputs[4])) - zero) * scale)
    _, out_scale, bits = inputs[3:]
    step = 2 ** np.round(np.log2(out_scale / scale))
    low, high = integer_range(bits, bool(attributes.get("signed", 1)), bool(attributes.get("narrow", 0)))
    return np.asarray((rounding(np.clip(whole / step, low, high)) - zero / step) * out_scale)


def float_quant(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """Round to a float of few exponent and mantissa bits; `largest` clips further. Zero stays zero."""
    x, scale, exponent, mantissa, bias, largest = inputs
    scaled = np.asarray(x / scale)
    unit = np.floor(np.log2(np.abs(scaled) + np.finfo(scaled.dtype).tiny)) - mantissa
    unit = np.exp2(np.maximum(unit, 1.0 - bias - mantissa))
    rounded = unit * _rounding(attributes, "ROUND")(scaled / unit)
    top = np.minimum((2 - 2.0**-mantissa) * 2.0 ** (2.0**exponent - 1 - bias), largest)
    clipped = np.clip(rounded, -top, top)
    if not attributes.get("saturation", 1):
        over = np.copysign(np.inf, rounded) if attributes.get("has_inf", 0) else np.nan
        clipped = np.where(np.abs(rounded) > top, over, clipped)
    return np.asarray(clipped * scale)


def integer_range(bits: Array, signed: bool, narrow: bool) -> tuple[Array, Array]:
    """Return the smallest and largest integer of `bits` bits. A narrow range lacks the one farthest from zero."""
    if signed:
        return -(2.0 ** (bits - 1)) + narrow, 2.0 ** (bits - 1) - 1
    return 0.0 * bits, 2.0**bits - 1 - narrow


def _rounding(attributes: dict[str, Any], default: str) -> Callable[[Array], Array]:
    mode = attributes.get("rounding_mode", default)
    return ROUNDING[(mode.decode() if isinstance(mode, bytes) else mode).upper()]


QUANTIZERS: dict[str, Quantizer] = {
    "Quant": integer_quant,
    "IntQuant": integer_quant,
    "BipolarQuant": bipolar_quant,
    "Trunc": truncate,
    "FloatQuant": float_quant,
}


CHANNELS_LAST = "qonnx.custom_op.channels_last"
SCALE = 1


def _can_follow(c: OpCall, data: ConstantValue) -> bool:
    # Evaluate one element, to fail now and not when the values are needed.
    quantize(c.node, [np.zeros((1,) * len(data.shape), np.float32), *(c.array(i) for i in range(1, len(c.inputs)))])
    return np.broadcast_shapes(*(c.shape(i) for i in range(len(c.inputs)))) == data.shape


quantizer = partial(
    operator, domain=QONNX, primitives="Join", constants="first", can_follow=_can_follow, evaluate=quantize
)


@quantizer("Quant", "IntQuant", "BipolarQuant", positions="quantizer")
@quantizer("Trunc", "FloatQuant")
def lower_quantizer(c: OpCall) -> Result:
    live = [i for i in range(1, len(c.inputs)) if c.is_live(i)]
    if live and is_weight(c.get(0)):
        raise NotLoweredError("it quantizes a weight by numbers that are computed from the model's input")
    x = c.x()
    try:
        shape = np.broadcast_shapes(*(c.shape(i) for i in range(len(c.inputs))))
    except ValueError:
        raise MisfitError("its parameters do not fit its input") from None
    x = c.b.expand(x, shape)
    if any(i != SCALE for i in live) or (live and c.node.op_type == "Trunc"):
        return c.b.join(x, *(c.x(i) for i in live), keeps_zero=False)
    y = c.b.divide(x, c.x(SCALE)) if live else x
    constant = nonzero(_at_zero(c, len(shape)))
    if constant.all():
        return c.b.join(y, keeps_zero=False)
    return c.b.join(y, c.b.constant(constant)) if constant.any() else c.b.join(y)


def _at_zero(c: OpCall, rank: int) -> Array:
    """Return the quantizer's value at zero. Whether that is zero does not depend on a live scale."""
    zeros, one = np.zeros((1,) * rank, np.float32), np.ones((), np.float32)
    parameters = [one if c.is_live(i) else c.array(i) for i in range(1, len(c.inputs))]
    return quantize(c.node, [zeros, *parameters])[0]


@operator("Conv", "MaxPool", "BatchNormalization", domain=CHANNELS_LAST, primitives="Permute, the operator, Permute")
def channels_last(c: OpCall) -> Result:
    """Data has its channels last, and so has the kernel of a convolution: [out, *kernel, in]."""
    node = NodeProto()
    node.CopyFrom(c.node)
    node.domain = ""
    rank = len(c.shape())
    if rank < 3:
        raise MisfitError(f"an input of shape {list(c.shape())} has no channels to move")
    first = (0, rank - 1, *range(1, rank - 1))
    moved = 2 if node.op_type == "Conv" else 1
    inputs = [*(_permuted(c, value, first) for value in c.inputs[:moved]), *c.inputs[moved:]]
    results = OPERATORS["", node.op_type].lower(OpCall(c.scope, node, inputs, c.position))
    several = results if isinstance(results, Sequence) else [results]
    last = (0, *range(2, rank), 1)
    return [None if y is None else c.b.permute(y if isinstance(y, int) else c.node_of(y), last) for y in several]


def _permuted(c: OpCall, value: Value | None, order: tuple[int, ...]) -> Value | None:
    if isinstance(value, ConstantValue):
        return value.moved(lambda a: a.transpose(order))
    return LiveValue(c.b.permute(c.node_of(value), order)) if value is not None else None
