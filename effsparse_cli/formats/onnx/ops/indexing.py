"""Selection by index. Constant indices are data movement, or a lookup in a stored table. Live indices may select any
element along the axis."""

from __future__ import annotations

import math

import numpy as np

from effsparse_cli.formats.onnx.lowering.op_call import OpCall
from effsparse_cli.formats.onnx.lowering.values import ConstantValue, LiveValue
from effsparse_cli.formats.onnx.lowering.weights import broadcast_zero_points, place, subtract_zero_points
from effsparse_cli.formats.onnx.operators import Extent, MisfitError, Result, operator
from effsparse_cli.formats.onnx.ops.movement import move, rearrange
from effsparse_cli.formats.onnx.tensors.store import EMBEDDING
from effsparse_cli.formats.operands import Lookup
from effsparse_cli.graph import indexing


def _gathered(c: OpCall) -> Extent:
    axis = c.attr("axis", 0) % len(c.shape())
    return [*c.shape()[:axis], *c.shape(1), *c.shape()[axis + 1 :]]


@operator(
    "Gather",
    primitives="Take; Contract in a stored table",
    constants="moved",
    extent=_gathered,
    lookup=Lookup(),
    positions="gather",
)
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
