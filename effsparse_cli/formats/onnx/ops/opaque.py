"""Operators that are Opaque by design: they select, count or parse depending on values."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import LiveValue
from effsparse_cli.formats.onnx.lowering.weights import known_weight, place, subtract_zero_points
from effsparse_cli.formats.onnx.operators import MICROSOFT, NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.ops.recurrent import ROLES

TEXT_AND_FILES = (
    "ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer",
)  # fmt: skip


@operator("NonZero", "Unique", primitives="Opaque", constants="computed")
@operator("NonMaxSuppression", primitives="Opaque")
@operator("MaxUnpool", primitives="Opaque", extent=lambda c: c.few_ints(2))
def data_dependent(c: OpCall) -> Result:
    raise NotLoweredError("its selection depends on values")


@operator(*TEXT_AND_FILES, primitives="Opaque")
def text(c: OpCall) -> Result:
    raise NotLoweredError("it works on text or files")


@operator("DynamicQuantizeLSTM", domain=MICROSOFT, primitives="Opaque", roles=ROLES)
def dynamic_quantize_lstm(c: OpCall) -> Result:
    """Every step is scaled by the whole sequence and state, so everything depends on everything. Its weights, stored as
    [directions, in, 4*hidden] relative to their zero points, still count as weights."""
    weights = []
    for i, zero_point in ((1, 9), (2, 11)):
        weight = known_weight(c.value(i))
        points = c.array(zero_point) if c.has(zero_point) else np.zeros(1)
        wide = points[:, None, :] if points.ndim == 2 else points.reshape(-1, 1, 1)
        weights.append(
            place(c, subtract_zero_points(weight, np.broadcast_to(wide.astype(np.int64), weight.shape)), "lstm")
        )
    live = [value.node for value in c.inputs if isinstance(value, LiveValue)]
    steps, batch = c.shape()[:2]
    state = (c.shape(2)[0], batch, c.shape(2)[1])
    shapes = [(steps, *state), state, state]
    return [c.b.opaque(c.node.op_type, [*live, *weights], shape) for shape in shapes[: len(c.node.output)]]
