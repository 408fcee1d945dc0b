"""Sampling at computed places (any place may be asked for), and operators that make tensors out of nothing."""

from __future__ import annotations

import math

import numpy as np

from effsparse_cli.formats.onnx.op_call import OpCall
from effsparse_cli.formats.onnx.operators import Extent, NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.sizes import few_ints
from effsparse_cli.formats.onnx.values import constant_value
from effsparse_cli.graph import indexing


@operator("GridSample", primitives="Mix, Product", extent=lambda c: [*c.shape()[:2], *c.shape(1)[1:-1]])
def grid_sample(c: OpCall) -> Result:
    return indexing.sample_grid(c.b, c.x(), c.x(1))


@operator("AffineGrid", primitives="Mix", extent=lambda c: few_ints(c, 1))
def affine_grid(c: OpCall) -> Result:
    return indexing.affine_grid(c.b, c.x(), c.ints(1)[2:])


@operator("Constant", primitives="Weight in a contraction, Constant otherwise", constants="computed")
def constant(c: OpCall) -> Result:
    raise NotLoweredError("it holds no value")


def _range_extent(c: OpCall) -> Extent:
    start, limit, step = (float(c.array(i).reshape(-1)[0]) if c.constant(i) is not None else 1.0 for i in range(3))
    return [math.ceil((limit - start) / step)]


@operator(
    "Range",
    primitives="none: a constant if its ends are known",
    constants="computed",
    extent=_range_extent,
    positions="filled",
)
def range_(c: OpCall) -> Result:
    """LiveValue ends: as many numbers as are assumed, each of them depending on the ends."""
    ends = c.b.join(*(c.b.reduce(x, None, keepdim=False) for x in c.xs()), keeps_zero=False)
    return c.b.expand(c.b.reshape(ends, (1,)), (*c.expected(), 1)[:1])


@operator("EyeLike", primitives="Constant", constants="computed", no_data=(0,), indexed=True)
def eye_like(c: OpCall) -> Result:
    """Only the shape of the input counts."""
    rows, columns = c.shape()
    c.scope.state.budget.allow(c.node, rows * columns)
    c.scope.state.budget.hold(rows * columns)
    return constant_value(np.eye(rows, columns, k=c.attr("k", 0), dtype=np.float32))


@operator(
    "ConstantOfShape",
    primitives="none: a constant if its shape is known",
    constants="computed",
    no_data=(0,),
    extent=lambda c: few_ints(c, 0),
    positions="filled",
)
def constant_of_shape(c: OpCall) -> Result:
    raise NotLoweredError("its shape is computed from the model's input")
