"""Sampling at computed places (any place may be asked for), and operators that make tensors out of nothing."""

from __future__ import annotations

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.table import NotLoweredError, Result, lowers
from effsparse_cli.formats.onnx.values import known


@lowers("GridSample", primitive="Mix, Product")
def grid_sample(c: Call) -> Result:
    """Each output position reads somewhere in its channel's map, as its own place in the grid says."""
    n, channels = c.shape()[:2]
    places = c.shape(1)[1:-1]
    seen = c.b.reduce(c.x(), range(2, len(c.shape())), keepdim=False)
    seen = c.b.reshape(seen, (n, channels, *(1,) * len(places)))
    grid = c.b.reshape(c.b.reduce(c.x(1), (-1,), keepdim=False), (n, 1, *places))
    return c.b.times(seen, c.b.join(grid, keeps_zero=False))


@lowers("AffineGrid", primitive="Mix")
def affine_grid(c: Call) -> Result:
    """Row r of theta gives coordinate r of every place."""
    n, _, *sizes = c.ints(1)
    rows = c.b.reduce(c.x(), (2,), keepdim=False, keeps_zero=False)
    coordinates = len(sizes)
    return c.b.expand(c.b.reshape(rows, (n, *(1,) * coordinates, coordinates)), (n, *sizes, coordinates))


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
