"""Sampling at computed places (any place may be asked for), and operators that make tensors out of nothing."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.table import NotLoweredError, Result, lowers
from effsparse_cli.formats.onnx.values import known
from effsparse_cli.graph import indexing


@lowers("GridSample", primitive="Mix, Product")
def grid_sample(c: Call) -> Result:
    return indexing.sample_grid(c.b, c.x(), c.x(1))


@lowers("AffineGrid", primitive="Mix")
def affine_grid(c: Call) -> Result:
    return indexing.affine_grid(c.b, c.x(), c.ints(1)[2:])


@lowers("Constant", primitive="Weight in a contraction, Constant otherwise", folding="value")
def constant(c: Call) -> Result:
    raise NotLoweredError("it holds no value")


@lowers("Range", primitive="none: a constant if its ends are known", folding="value")
def range_(c: Call) -> Result:
    """Live ends: as many numbers as are assumed, each of them depending on the ends."""
    ends = c.b.join(*(c.b.reduce(x, None, keepdim=False) for x in c.xs()), keeps_zero=False)
    return c.b.expand(c.b.reshape(ends, (1,)), (*c.expected(), 1)[:1])


@lowers("EyeLike", primitive="Constant", folding="value")
def eye_like(c: Call) -> Result:
    """Only the shape of the input counts."""
    rows, columns = c.shape()
    c.scope.reading.budget.allow(c.node, rows * columns)
    c.scope.reading.budget.hold(rows * columns)
    return known(np.eye(rows, columns, k=c.attr("k", 0), dtype=np.float32))


@lowers("ConstantOfShape", primitive="none: a constant if its shape is known", folding="value")
def constant_of_shape(c: Call) -> Result:
    raise NotLoweredError("its shape is computed from the model's input")
