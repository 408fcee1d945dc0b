"""Windows in a pass: what the taps of a contraction read of a map of positions, forward and backward."""

from __future__ import annotations

import numpy as np

from effsparse_cli.graph.primitives import Bools, Taps
from effsparse_cli.kernel.bits import some


def gather(maps: Bools, tables: tuple[Taps, ...]) -> Bools:
    """[classes, *batch, *spatial] to [taps, classes, *batch, *out]: what each tap reads of each map."""
    rank = len(tables)
    result = maps
    for axis, table in zip(range(maps.ndim - rank, maps.ndim), tables, strict=True):
        read = _read(result, axis + (result.ndim - maps.ndim), table)
        result = np.moveaxis(read, axis + (result.ndim - maps.ndim), axis - (maps.ndim - rank))
    return result.reshape(-1, *result.shape[rank:])


def _read(maps: Bools, axis: int, table: Taps) -> Bools:
    """One axis becomes two: taps, positions."""
    inside = table >= 0
    after = (1,) * (maps.ndim - axis - 1)
    if maps.shape[axis] == 1:
        valid = inside[:, :1] if inside.all() else inside
        return np.expand_dims(maps, axis) & valid.reshape(*valid.shape, *after)
    return maps.take(np.maximum(table, 0), axis=axis) & inside.reshape(*inside.shape, *after)


def reach(tables: tuple[Taps, ...]) -> tuple[Bools, Bools]:
    """Per tap: does it read something for every output position; for any."""
    always, ever = np.ones(1, bool), np.ones(1, bool)
    for table in tables:
        always = (always[:, None] & ~some(table < 0, 1)).reshape(-1)
        ever = (ever[:, None] & some(table >= 0, 1)).reshape(-1)
    return always, ever


def invert(table: Taps, size: int) -> Taps:
    """[taps, out] to [taps, size]: the output position that each tap brings an input position to."""
    inverse = np.full((len(table), size), -1)
    tap, out = np.nonzero(table >= 0)
    inverse[tap, table[tap, out]] = out
    return inverse
