"""Writing by index. Constant indices say where each update goes; with live ones it may go anywhere along the axis."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.operators import NotLoweredError, Result, operator
from effsparse_cli.graph.primitives import Ints

MOST_EVALUATED = 1 << 20
"""Number of elements: onnx's reference implementation writes them one by one."""

MOST_ROUNDS = 64
"""Number of updates of one element that are joined, one after another."""

scattering = partial(
    operator, primitives="Take, Join", constants="computed", most_evaluated=MOST_EVALUATED, indexed=True
)


@scattering("ScatterElements", "Scatter")
def scatter_elements(c: OpCall) -> Result:
    axis = c.attr("axis", 0) % len(c.shape())
    if c.is_live(1):
        return _anywhere(c, axis)
    index = c.array(1)
    places = list(np.indices(index.shape))
    places[axis] = np.where(index < 0, index + c.shape()[axis], index)
    return write(c, np.asarray(np.ravel_multi_index(tuple(places), c.shape())) if index.size else index)


@scattering("ScatterND")
def scatter_nd(c: OpCall) -> Result:
    shape = c.shape()
    depth = c.shape(1)[-1]
    if c.is_live(1):
        b = c.b
        updates = b.reduce(c.x(2), range(len(c.shape(1)) - 1), keepdim=False)
        return b.join(c.x(), updates, b.reduce(c.x(1), None, keepdim=False))
    index = c.array(1)
    sizes = np.asarray(shape[:depth], np.int64)
    places = np.where(index < 0, index + sizes, index)
    rest = math.prod(shape[depth:])
    rows = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), shape[:depth]) if places.size else places[..., 0]
    return write(c, (rows[..., None] * rest + np.arange(rest)).reshape(c.shape(2)))


@operator("TensorScatter", primitives="Take, Join", indexed=True)
def tensor_scatter(c: OpCall) -> Result:
    """Write to a cache, for each sample from its own position."""
    shape, axis = c.shape(), c.attr("axis", -2) % len(c.shape())
    updates = c.shape(1)
    if c.is_live(2):
        b = c.b
        starts = b.reshape(c.x(2), (-1, *(1,) * (len(shape) - 1)))
        return b.join(c.x(), b.reduce(c.x(1), (axis,), keepdim=True), starts)
    places = list(np.indices(updates))
    starts_known = c.array(2) if c.has(2) else np.zeros(shape[0], np.int64)
    places[axis] = places[axis] + starts_known.reshape(-1, *(1,) * (len(shape) - 1))
    if c.attr("mode", "linear") == "circular":
        places[axis] = places[axis] % shape[axis]
    return write(c, np.asarray(np.ravel_multi_index(tuple(places), shape)), updates=1)


def write(c: OpCall, places: Ints, updates: int = 2) -> int:
    """Write the updates; `places` has their shape and holds flat positions of input 0."""
    b, shape = c.b, c.shape()
    size, places = math.prod(shape), np.asarray(places, np.int64).reshape(-1)
    if c.attr("reduction", "none") == "none":
        index = np.arange(size)
        index[places] = size + np.arange(len(places))
        both = b.concat([b.reshape(c.x(), (-1,)), b.reshape(c.x(updates), (-1,))], 0)
        return b.reshape(b.take(both, 0, index), shape)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.searchsorted(ordered, ordered, side="left")
    rounds = np.empty(len(places), np.int64)
    rounds[order] = np.arange(len(places)) - first
    if rounds.max(initial=0) >= MOST_ROUNDS:
        raise NotLoweredError("too many updates of one element")
    y = c.x()
    for turn in range(int(rounds.max(initial=-1)) + 1):
        index = np.full(size, -1)
        index[places[rounds == turn]] = np.flatnonzero(rounds == turn)
        y = b.join(y, b.gather(c.x(updates), index.reshape(shape)))
    return y


def _anywhere(c: OpCall, axis: int) -> int:
    """Let every element keep its value or get any update along the axis."""
    b = c.b
    pools = []
    for i in (1, 2):
        pool = b.reduce(c.x(i), (axis,), keepdim=True)
        for other, n in enumerate(c.shape()):
            if other != axis and b.shape(pool)[other] < n:
                pool = b.pad(pool, other, 0, n - b.shape(pool)[other])
        pools.append(pool)
    return b.join(c.x(), *pools)
