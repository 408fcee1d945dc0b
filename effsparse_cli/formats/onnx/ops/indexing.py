"""Picking elements by index: with constant indices it is data movement, in a stored table it is a lookup, and
with live indices every element along the axis may be the one that is picked."""

from __future__ import annotations

import math

import numpy as np

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.fold import spread
from effsparse_cli.formats.onnx.ops.movement import move, rearrange
from effsparse_cli.formats.onnx.store import EMBEDDING
from effsparse_cli.formats.onnx.stored import may_be_learned
from effsparse_cli.formats.onnx.table import MisfitError, Result, lowers
from effsparse_cli.formats.onnx.values import Known, Live, minus
from effsparse_cli.formats.onnx.weights import place
from effsparse_cli.graph import indexing


@lowers("Gather", primitive="Take; Contract in a stored table", folding="moves")
def gather(c: Call) -> Result:
    axis = c.attr("axis", 0) % len(c.shape())
    index = c.known(1)
    if index is not None:
        shape, n = c.shape(), c.shape()[axis]
        positions = np.where(index.array < 0, index.array + n, index.array)
        if positions.size and not 0 <= positions.min() <= positions.max() < n:
            raise MisfitError(f"an index lies outside an axis of {n}")
        wanted = (*shape[:axis], *index.shape, *shape[axis + 1 :])
        return move(c, lambda x: c.b.reshape(c.b.take(x, axis, positions.reshape(-1)), wanted))
    table = c.known(0)
    if table is not None and is_table(table):
        points = c.scope.zero_point_ahead(c.node.output[0])
        if points is None:
            return lookup(c, table, axis, c.x(1))
        return Live(lookup(c, minus(table, spread(points, table.shape, 0)), axis, c.x(1)), shifted=True)
    return indexing.pick(c.b, c.x(), axis, c.x(1))


def is_table(table: Known) -> bool:
    """Numbers that were learned, not indices or shapes."""
    stored = table.origin.stored if table.origin is not None else None
    return table.derived and may_be_learned(stored.dtype if stored is not None else table.array.dtype, table.shape)


def lookup(c: Call, table: Known, axis: int, ids: int) -> int:
    """One-hot rows times the table: each id may pick any row, so it stands before all of them."""
    rows = table.shape[axis]
    before, after = table.shape[:axis], table.shape[axis + 1 :]
    weight = table.moved(lambda a: np.moveaxis(a, axis, -1).reshape(math.prod(before + after), rows))
    id_shape = c.b.shape(ids)
    hot = indexing.spread_index(c.b, ids, rows)
    found = c.b.reshape(c.b.contract(hot, place(c, weight, EMBEDDING)), (*id_shape, *before, *after))
    n = len(id_shape)
    order = [*range(n, n + axis), *range(n), *range(n + axis, n + len(before + after))]
    return c.b.permute(found, order)


@lowers("GatherND", "GatherElements", primitive="Take", folding="moves")
def gather_elements(c: Call) -> Result:
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


@lowers("ArrayFeatureExtractor", domain="ai.onnx.ml", primitive="Take")
def extract_features(c: Call) -> Result:
    n = c.shape()[-1]
    return c.b.reshape(
        c.b.take(c.x(), len(c.shape()) - 1, np.asarray(c.ints(1)) % n), (*c.shape()[:-1], len(c.ints(1)))
    )


@lowers("OneHot", primitive="Join", folding="value")
def one_hot(c: Call) -> Result:
    depth, shape = int(c.array(1).reshape(-1)[0]), c.shape()
    axis = c.attr("axis", -1) % (len(shape) + 1)
    ids = c.b.reshape(c.x(), (*shape[:axis], 1, *shape[axis:]))
    wide = c.b.expand(ids, (*shape[:axis], depth, *shape[axis:]))
    values = [c.b.reduce(c.x(2), None, keepdim=False)] if c.is_live(2) else []
    return c.b.join(wide, *values, keeps_zero=False)


@lowers("TopK", primitive="Mix, Take", folding="value")
def top_k(c: Call) -> Result:
    k = c.ints_from(1, "k")
    axis = c.attr("axis", -1) % len(c.shape())
    count = (k or [1])[0]
    values, places = (c.b.mix(c.x(), (axis,), keeps_zero=keeps) for keeps in (True, False))
    return [c.b.slice(values, axis, 0, count), c.b.slice(places, axis, 0, count)]


@lowers("ArgMax", "ArgMin", primitive="Mix", folding="value")
def arg_max(c: Call) -> Result:
    return c.b.reduce(c.x(), (c.attr("axis", 0),), bool(c.attr("keepdims", 1)), keeps_zero=False)
