"""Reading and writing by index: data movement, or a lookup in a stored table; live indices may select anything."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue
from effsparse_cli.formats.onnx.lowering.weights import broadcast_zero_points, place, subtract_zero_points
from effsparse_cli.formats.onnx.operators import Extent, MisfitError, NotLoweredError, Result, operator
from effsparse_cli.formats.onnx.ops.movement import move, rearrange
from effsparse_cli.formats.onnx.tensors.store import EMBEDDING
from effsparse_cli.formats.operands import Lookup
from effsparse_cli.graph import indexing
from effsparse_cli.graph.primitives import Ints

MOST_EVALUATED = 1 << 20
"""Number of elements: onnx's reference implementation writes them one by one."""
MOST_ROUNDS = 64
"""Number of updates of one element that are joined, one after another."""


def _gathered(c: OpCall) -> Extent:
    axis = c.attr("axis", 0) % len(c.shape())
    return [*c.shape()[:axis], *c.shape(1), *c.shape()[axis + 1 :]]


@operator(
    "Gather", primitives="Take; Contract in a stored table", constants="moved",
    extent=_gathered, lookup=Lookup(), positions="gather",
)  # fmt: skip
def gather(c: OpCall) -> Result:
    axis = c.attr("axis", 0) % len(c.shape())
    index = c.constant(1)
    if index is not None:
        shape, n = c.shape(), c.shape()[axis]
        positions = np.where(index.array < 0, index.array + n, index.array)
        if positions.size and not 0 <= positions.min() <= positions.max() < n:
            raise MisfitError(f"an index lies outside an axis of {n}")
        wanted = (*shape[:axis], *index.shape, *shape[axis + 1 :])
        return move(c, lambda x: c.b.reshape(c.b.take(x, axis, positions.reshape(-1)), wanted))
    table = c.constant(0)
    if table is not None and table.learned:
        points = c.scope.zero_point_ahead(c.node.output[0])
        if points is None:
            return lookup(c, table, axis, c.x(1))
        return LiveValue(
            lookup(c, subtract_zero_points(table, broadcast_zero_points(points, table.shape, 0)), axis, c.x(1)),
            shifted=True,
        )
    return indexing.pick(c.b, c.x(), axis, c.x(1))


def lookup(c: OpCall, table: ConstantValue, axis: int, ids: int) -> int:
    """Multiply one-hot rows by the table. An index may select any row, so every row depends on it."""
    rows = table.shape[axis]
    before, after = table.shape[:axis], table.shape[axis + 1 :]
    weight = table.moved(lambda a: np.moveaxis(a, axis, -1).reshape(math.prod(before + after), rows))
    id_shape = c.b.shape(ids)
    hot = indexing.spread_index(c.b, ids, rows)
    found = c.b.reshape(c.b.contract(hot, place(c, weight, EMBEDDING)), (*id_shape, *before, *after))
    n = len(id_shape)
    order = [*range(n, n + axis), *range(n), *range(n + axis, n + len(before + after))]
    return c.b.permute(found, order)


def _gathered_nd(c: OpCall) -> Extent:
    *lead, depth = c.shape(1)
    return [*lead, *c.shape()[c.attr("batch_dims", 0) + depth :]]


@operator("GatherElements", primitives="Take", constants="moved", indexed=True)
@operator("GatherND", primitives="Take", constants="moved", extent=_gathered_nd, indexed=True)
def gather_elements(c: OpCall) -> Result:
    if not c.is_live(1):
        return rearrange(c)
    shape, ids = c.shape(), c.x(1)
    id_shape = c.b.shape(ids)
    if c.node.op_type == "GatherElements":
        return indexing.pick_elements(c.b, c.x(), c.attr("axis", 0), ids)
    batch, depth = c.attr("batch_dims", 0), id_shape[-1]
    rest = len(shape) - batch - depth
    pool = c.b.reduce(c.x(), range(batch, batch + depth), keepdim=False)
    middle = len(id_shape) - 1 - batch
    pool = c.b.reshape(pool, (*shape[:batch], *(1,) * middle, *shape[batch + depth :]))
    picked = c.b.reduce(ids, (-1,), keepdim=False)
    picked = c.b.reshape(picked, (*id_shape[:-1], *(1,) * rest))
    return c.b.times(pool, c.b.join(picked, keeps_zero=False))


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml", primitives="Take")
def extract_features(c: OpCall) -> Result:
    n = c.shape()[-1]
    return c.b.reshape(
        c.b.take(c.x(), len(c.shape()) - 1, np.asarray(c.ints(1)) % n), (*c.shape()[:-1], len(c.ints(1)))
    )


@operator("OneHot", primitives="Join", constants="computed", extent=lambda c: [*c.shape(), *c.few_ints(1)[:1]])
def one_hot(c: OpCall) -> Result:
    depth, shape = int(c.array(1).reshape(-1)[0]), c.shape()
    axis = c.attr("axis", -1) % (len(shape) + 1)
    ids = c.b.reshape(c.x(), (*shape[:axis], 1, *shape[axis:]))
    wide = c.b.expand(ids, (*shape[:axis], depth, *shape[axis:]))
    values = [c.b.reduce(c.x(2), None, keepdim=False)] if c.is_live(2) else []
    return c.b.join(wide, *values, keeps_zero=False)


@operator("TopK", primitives="Mix, Take", constants="computed")
def top_k(c: OpCall) -> Result:
    k = c.ints_from(1, "k")
    axis = c.attr("axis", -1) % len(c.shape())
    count = (k or [1])[0]
    values, places = (c.b.mix(c.x(), (axis,), keeps_zero=keeps) for keeps in (True, False))
    return [c.b.slice(values, axis, 0, count), c.b.slice(places, axis, 0, count)]


@operator("ArgMax", "ArgMin", primitives="Mix", constants="computed", positions="arg_reduction")
def arg_max(c: OpCall) -> Result:
    return c.b.reduce(c.x(), (c.attr("axis", 0),), bool(c.attr("keepdims", 1)), keeps_zero=False)


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
