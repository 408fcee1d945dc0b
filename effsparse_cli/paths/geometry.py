"""What each tap of a contraction reads, forward and backward, as the kernel wants to know it: it depends on sizes,
strides and padding alone, so it is worked out once for all contractions that are alike."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Contract, Ints, Shape, Taps
from effsparse_cli.kernel.bits import Words, pack
from effsparse_cli.kernel.plain import ELSEWHERE, Geometry
from effsparse_cli.paths.taps import invert, reach


class Way:
    """One direction: tables of taps, over maps with one copy of the positions per member of the batch."""

    def __init__(self, tables: tuple[Taps, ...], sizes: Shape, batch: int) -> None:
        self.out = tuple(table.shape[1] for table in tables)
        always, ever = reach(tables)
        self.all_ever = bool(ever.all())
        # A linear layer has one position.
        tables, sizes = (tables, sizes) if tables else ((np.zeros((1, 1), np.intp),), (1,))
        last = tables[-1].astype(np.int32)
        front = _front(tables[:-1], sizes, batch)
        covers, distances = _reached(front, last)
        self.geometry = Geometry(
            taps=len(always),
            positions=batch * math.prod(sizes),
            outputs=front.shape[1] * last.shape[1],
            lasts=len(last),
            always=always.tobytes(),
            distances=distances.tobytes(),
            covers=covers.tobytes(),
            front=front.tobytes(),
            steps=np.array([_steps(row) for row in last], np.int32).tobytes(),
            last=last.tobytes(),
        )


def _front(tables: tuple[Taps, ...], sizes: Shape, batch: int) -> Ints:
    """[taps, lines]: where the line of the input begins that each tap of all axes but the last reads for each line of
    the output."""
    front = np.arange(batch)[None, :]
    for table, size in zip(tables, sizes[:-1], strict=True):
        inside = (front >= 0)[:, None, :, None] & (table >= 0)[None, :, None, :]
        found = np.where(inside, front[:, None, :, None] * size + table[None, :, None, :], -1)
        front = found.reshape(len(front) * len(table), -1)
    return np.where(front >= 0, front * sizes[-1], -1).astype(np.int32)


def _reached(front: Ints, last: Ints) -> tuple[Words, NDArray[np.int64]]:
    """[taps, words]: the output positions for which a tap reads anything; and how far away it reads."""
    covers, distances = [], []
    for lines in front:
        inside = ((lines >= 0)[:, None] & (last >= 0)[:, None, :]).reshape(len(last), -1)
        source = (lines[:, None] + last[:, None, :]).reshape(len(last), -1)
        covers.append(pack(inside))
        for reads, away in zip(inside, source - np.arange(source.shape[1]), strict=True):
            distances.append(_distance(away[reads]))
    return np.concatenate(covers), np.array(distances, np.int64)


def _distance(away: Ints) -> int:
    if not len(away):
        return 0
    return int(away[0]) if (away == away[0]).all() else ELSEWHERE


def _steps(source: Ints) -> tuple[int, int, int, int, int]:
    into = (source >= 0).nonzero()[0]
    if len(into) < 2:
        return (int(into[0]), 1, int(source[into[0]]), 1, 1) if len(into) else (0, 1, 0, 1, 0)
    over, by = np.diff(into), np.diff(source[into])
    number = len(into) if (over == over[0]).all() and (by == by[0]).all() and by[0] > 0 else -1
    return int(into[0]), int(over[0]), int(source[into[0]]), int(by[0]), number


Both = tuple[Way, Way]


def both_ways(op: Contract, x_shape: Shape, batch: Shape) -> Both:
    """Forward and backward, for an input of this shape whose batch is stored in other sizes."""
    found: Both | None = op.known.get((x_shape, batch))
    if found is None:
        found = ways_of(op.windows, x_shape[len(x_shape) - len(op.windows) :], math.prod(batch))
        op.known[x_shape, batch] = found
    return found


def ways_of(windows: tuple[Taps, ...], sizes: Shape, batch: int) -> Both:
    """Forward and backward, over positions of the given sizes."""
    return _ways(tuple((table.tobytes(), table.shape, table.dtype.str) for table in windows), sizes, batch)


@lru_cache(maxsize=256)
def _ways(tables: tuple[tuple[bytes, Shape, str], ...], sizes: Shape, batch: int) -> Both:
    windows = tuple(np.frombuffer(data, dtype).reshape(shape) for data, shape, dtype in tables)
    inverse = tuple(invert(table, n) for table, n in zip(windows, sizes, strict=True))
    out = tuple(table.shape[1] for table in windows)
    return Way(windows, sizes, batch), Way(inverse, out, batch)
