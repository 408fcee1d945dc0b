"""Operators that are Opaque on purpose: their results pick, count or parse in ways that depend on the values, so
everything may depend on everything. Listed here so that the table is complete and says so."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.table import MICROSOFT, NotLoweredError, Result, lowers
from effsparse_cli.formats.onnx.values import Live, minus
from effsparse_cli.formats.onnx.weights import known_weight, place

DATA_DEPENDENT = ("NonMaxSuppression", "MaxUnpool")
TEXT_AND_FILES = (
    "ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer",
)  # fmt: skip


@lowers("NonZero", "Unique", primitive="Opaque", folding="value")
@lowers(*DATA_DEPENDENT, primitive="Opaque")
def data_dependent(c: Call) -> Result:
    raise NotLoweredError("what it picks depends on the values")


@lowers(*TEXT_AND_FILES, primitive="Opaque")
def text(c: Call) -> Result:
    raise NotLoweredError("it works on text or files")


@lowers("DynamicQuantizeLSTM", domain=MICROSOFT, primitive="Opaque")
def dynamic_quantize_lstm(c: Call) -> Result:
    """Every step is scaled by all of the sequence and of the state, so everything depends on everything; but its
    weights are weights, stored [directions, in, 4*hidden], and count from their zero points."""
    weights = []
    for i, zero_point in ((1, 9), (2, 11)):
        weight = known_weight(c.value(i))
        points = c.array(zero_point) if c.has(zero_point) else np.zeros(1)
        wide = points[:, None, :] if points.ndim == 2 else points.reshape(-1, 1, 1)
        weights.append(place(c, minus(weight, np.broadcast_to(wide.astype(np.int64), weight.shape)), "lstm"))
    live = [value.node for value in c.inputs if isinstance(value, Live)]
    steps, batch = c.shape()[:2]
    state = (c.shape(2)[0], batch, c.shape(2)[1])
    shapes = [(steps, *state), state, state]
    return [c.b.opaque(c.node.op_type, [*live, *weights], shape) for shape in shapes[: len(c.node.output)]]
