"""Operators that make tensors from sizes alone, and random values, which are constants other than zero."""

from __future__ import annotations

import math

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import constant_value
from effsparse_cli.formats.onnx.operators import Extent, NotLoweredError, Result, operator


@operator("Constant", primitives="Weight in a contraction, Constant otherwise", constants="computed")
def constant(c: OpCall) -> Result:
    raise NotLoweredError("it holds no value")


def _range_extent(c: OpCall) -> Extent:
    start, limit, step = (float(c.array(i).reshape(-1)[0]) if c.constant(i) is not None else 1.0 for i in range(3))
    return [math.ceil((limit - start) / step)]


@operator(
    "Range",
    primitives="none: a constant if its ends are known", constants="computed", extent=_range_extent, positions="filled",
)  # fmt: skip
def range_(c: OpCall) -> Result:
    """With live ends, assume a number of elements, each of which depends on the ends."""
    ends = c.b.join(*(c.b.reduce(x, None, keepdim=False) for x in c.xs()), keeps_zero=False)
    return c.b.expand(c.b.reshape(ends, (1,)), (*c.expected(), 1)[:1])


@operator("EyeLike", primitives="Constant", constants="computed", no_data=(0,), indexed=True)
def eye_like(c: OpCall) -> Result:
    """Only the shape of the input matters."""
    rows, columns = c.shape()
    c.scope.state.budget.allow(c.node, rows * columns)
    c.scope.state.budget.hold(rows * columns)
    return constant_value(np.eye(rows, columns, k=c.attr("k", 0), dtype=np.float32))


@operator(
    "ConstantOfShape", primitives="none: a constant if its shape is known", constants="computed",
    no_data=(0,), extent=lambda c: c.few_ints(0), positions="filled",
)  # fmt: skip
def constant_of_shape(c: OpCall) -> Result:
    raise NotLoweredError("its shape is computed from the model's input")


@operator(
    "RandomNormal", "RandomUniform",
    primitives="Constant", constants="lowered", extent=lambda c: list(c.attr("shape") or []),
)  # fmt: skip
def random(c: OpCall) -> Result:
    return c.b.constant(True, c.attr("shape") or ())


@operator("RandomNormalLike", "RandomUniformLike", primitives="Constant", constants="lowered", stays_in_file=True)
def random_like(c: OpCall) -> Result:
    return c.b.constant(True, c.shape())


@operator("Bernoulli", primitives="Join", constants="lowered", stays_in_file=True)
def bernoulli(c: OpCall) -> Result:
    return c.b.join(c.x())


@operator("Multinomial", primitives="Mix", constants="lowered", stays_in_file=True)
def multinomial(c: OpCall) -> Result:
    seen = c.b.reduce(c.x(), (1,), keepdim=True, keeps_zero=False)
    return c.b.expand(seen, (c.shape()[0], c.attr("sample_size", 1)))
