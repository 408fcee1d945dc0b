"""Reads at positions known only at run time, in primitives: any position may be read, as the index says."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.graph.builder import Builder


def spread_index(b: Builder, index: int, rows: int) -> int:
    """One-hot rows [..., rows] of an index [...]: each row of the table may be the one that is read."""
    picker = b.join(index, keeps_zero=False)
    shape = b.shape(picker)
    return b.expand(b.reshape(picker, (*shape, 1)), (*shape, rows))


def pick(b: Builder, x: int, axis: int, index: int) -> int:
    """numpy.take with a live index: the axis becomes the axes of the index."""
    shape, index_shape = b.shape(x), b.shape(index)
    axis %= len(shape)
    pool = b.reduce(x, (axis,), keepdim=False)
    pool = b.reshape(pool, (*shape[:axis], *(1,) * len(index_shape), *shape[axis + 1 :]))
    picker = b.reshape(index, (*index_shape, *(1,) * (len(shape) - axis - 1)))
    return b.times(pool, b.join(picker, keeps_zero=False))


def pick_elements(b: Builder, x: int, axis: int, index: int) -> int:
    """torch.gather with a live index; the other axes are read up to the size of the index."""
    pool = b.reduce(x, (axis,), keepdim=True)
    sizes = b.shape(index)
    for other, n in enumerate(sizes):
        if other != axis % len(sizes):
            pool = b.slice(pool, other, 0, n)
    return b.times(pool, b.join(index, keeps_zero=False))


def sample_grid(b: Builder, x: int, grid: int) -> int:
    """x [N, C, *sizes] read at grid [N, *places, coordinates]: any position of its channel, as its place says."""
    shape = b.shape(grid)
    pool = b.reduce(x, range(2, len(b.shape(x))), keepdim=True)
    places = b.reduce(grid, (-1,), keepdim=False, keeps_zero=False)
    return b.times(pool, b.reshape(places, (shape[0], 1, *shape[1:-1])))


def affine_grid(b: Builder, theta: int, sizes: Sequence[int]) -> int:
    """Row r of theta [N, r, r + 1] gives coordinate r of every place of the grid [N, *sizes, r]."""
    rows = b.reduce(theta, (2,), keepdim=False)
    n, rank = b.shape(rows)
    return b.expand(b.reshape(rows, (n, *(1,) * rank, rank)), (n, *sizes, rank))
