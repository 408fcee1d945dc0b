"""What each tap of a contraction reads, forward and backward, in the form that the kernel takes. It depends on sizes,
strides and padding alone, so it is computed once for all contractions that are alike.

Nearly every tap of an axis reads positions at regular steps, and only the steps are stored: the adjoint of a long
kernel over a long axis (400 taps over 480,000 samples) would take gigabytes as a table of [taps, positions].
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Contract, Ints, Shape, Taps
from effsparse_cli.kernel.bits import Words, pack, words_of
from effsparse_cli.kernel.numpy_loops import PIECE, positions_of_steps
from effsparse_cli.kernel.structures import IRREGULAR, Geometry
from effsparse_cli.paths.taps import invert


class Axis(NamedTuple):
    """The taps of one axis. `steps` [taps, 5] has first output position, step, first input position, step and count.
    `table` [taps, out] is None if all steps are regular; otherwise the count of an irregular tap is -1."""

    size: int
    out: int
    steps: NDArray[np.int32]
    table: Taps | None

    def row(self, tap: int) -> Ints:
        """Return the position that the tap reads for each output, or -1."""
        return self.table[tap] if self.table is not None else positions_of_steps(self.steps[tap], self.out)

    def places(self, tap: int) -> Bools:
        """Return for which outputs the tap reads anything."""
        if self.table is not None:
            return np.asarray(self.table[tap] >= 0)
        to, over, _, _, number = self.steps[tap].tolist()
        places = np.zeros(self.out, bool)
        places[to : to + over * number : over] = True
        return places

    def distance(self, tap: int) -> int:
        """Return input minus output position, or IRREGULAR if it varies."""
        to, over, at, by, number = self.steps[tap].tolist()
        if number >= 0:
            return at - to if number < 2 or over == by else IRREGULAR
        away = (self.row(tap) - np.arange(self.out))[self.places(tap)]
        return int(away[0]) if (away == away[0]).all() else IRREGULAR


def axis_of(table: Taps, size: int) -> Axis:
    steps = _steps(table)
    return Axis(size, table.shape[1], steps, table if (steps[:, 4] < 0).any() else None)


def inverted(axis: Axis) -> Axis:
    """Return the adjoint: output positions for input positions."""
    if axis.table is not None:
        return axis_of(invert(axis.table, axis.size), axis.out)
    return Axis(axis.out, axis.size, axis.steps[:, [2, 3, 0, 1, 4]], None)


def _steps(table: Taps) -> NDArray[np.int32]:
    """Find the steps of all taps in pieces, because a table of many taps over a long axis is large."""
    taps, out = table.shape
    rows = max(PIECE // max(out, 1), 1)
    if not out:
        return np.tile(np.array([0, 1, 0, 1, 0], np.int32), (taps, 1))
    pieces = [np.empty((0, 5), np.int32), *(_steps_of(table[k : k + rows]) for k in range(0, taps, rows))]
    return np.concatenate(pieces)


def _steps_of(table: Taps) -> NDArray[np.int32]:
    inside, places, rows = table >= 0, np.arange(table.shape[1]), np.arange(len(table))
    number, to = np.count_nonzero(inside, axis=1), inside.argmax(axis=1)
    several = number > 1
    second = np.where(several, (inside & (places > to[:, None])).argmax(axis=1), to)
    at = np.where(number > 0, table[rows, to], 0)
    over, by = np.where(several, second - to, 1), np.where(several, table[rows, second] - at, 1)
    turn, left = np.divmod(places - to[:, None], over[:, None])
    reads = (left == 0) & (turn >= 0) & (turn < number[:, None])
    regular = (np.where(reads, at[:, None] + turn * by[:, None], -1) == table).all(axis=1) & (by > 0)
    return np.stack([to, over, at, by, np.where(regular, number, -1)], axis=1).astype(np.int32)


class WindowGeometry:
    """One direction: the taps of all axes, over maps with one copy of the positions per element of the batch.
    `all_ever` and `all_always` tell whether all taps read something for any, and for every, output position."""

    def __init__(self, axes: tuple[Axis, ...], batch: int) -> None:
        self.out = tuple(axis.out for axis in axes)
        # A linear layer has one position.
        *others, last = axes or (axis_of(np.zeros((1, 1), np.intp), 1),)
        front = _front(others, last.size, batch)
        covers, distances = _reached(front, last)
        always = np.bitwise_count(covers).sum(axis=1) == front.shape[1] * last.out
        self.all_ever = bool(covers.any(axis=1).all())
        self.all_always = bool(always.all())
        self.geometry = Geometry(
            taps=len(covers),
            positions=batch * math.prod(axis.size for axis in (*others, last)),
            outputs=front.shape[1] * last.out,
            last_taps=len(last.steps),
            line_length=last.out,
            always=always.tobytes(),
            distances=distances.tobytes(),
            covers=covers.tobytes(),
            front=front.tobytes(),
            steps=last.steps.tobytes(),
            last=b"" if last.table is None else last.table.astype(np.int32).tobytes(),
        )


def _front(axes: list[Axis], length: int, batch: int) -> NDArray[np.int32]:
    """Return [taps, lines]: where the input line starts that each tap of the first axes reads for an output line."""
    front = np.arange(batch, dtype=np.int64)[None, :]
    for axis in axes:
        table = np.stack([axis.row(tap) for tap in range(len(axis.steps))])
        inside = (front >= 0)[:, None, :, None] & (table >= 0)[None, :, None, :]
        found = np.where(inside, front[:, None, :, None] * axis.size + table[None, :, None, :], -1)
        front = found.reshape(len(front) * len(table), -1)
    return np.where(front >= 0, front * length, -1).astype(np.int32)


def _reached(front: Ints, last: Axis) -> tuple[Words, NDArray[np.int64]]:
    """Return the output positions for which each tap reads anything, [taps, words], and its distance."""
    lines, lasts = front.shape[1], len(last.steps)
    covers = np.zeros((len(front) * lasts, words_of(lines * last.out)), np.uint64)
    distances = np.zeros(len(covers), np.int64)
    of_lines = [_line_distance(starts, last.out) for starts in front]
    for tap in range(lasts):
        places, in_line = last.places(tap), last.distance(tap)
        for k, starts in enumerate(front):
            covers[k * lasts + tap] = pack(((starts >= 0)[:, None] & places).reshape(-1))
            distances[k * lasts + tap] = IRREGULAR if IRREGULAR in (of_lines[k], in_line) else of_lines[k] + in_line
    return covers, distances


def _line_distance(starts: Ints, length: int) -> int:
    """Return the distance from output to input lines, or IRREGULAR if it varies."""
    away = (starts - np.arange(len(starts)) * length)[starts >= 0]
    return IRREGULAR if len(away) and (away != away[0]).any() else int(away[0]) if len(away) else 0


BothGeometries = tuple[WindowGeometry, WindowGeometry]


def find_geometries(op: Contract, x_shape: Shape, batch: Shape) -> BothGeometries:
    """Return the forward and backward geometry for an input of this shape, with the batch as it is stored."""
    found: BothGeometries | None = op.cache.get((x_shape, batch))
    if found is None:
        found = build_geometries(op.windows, x_shape[len(x_shape) - len(op.windows) :], math.prod(batch))
        op.cache[x_shape, batch] = found
    return found


def build_geometries(windows: tuple[Taps, ...], sizes: Shape, batch: int) -> BothGeometries:
    """Return the forward and backward geometry over positions of the given sizes."""
    return _build_geometries(tuple((table.tobytes(), table.shape, table.dtype.str) for table in windows), sizes, batch)


@lru_cache(maxsize=256)
def _build_geometries(tables: tuple[tuple[bytes, Shape, str], ...], sizes: Shape, batch: int) -> BothGeometries:
    windows = tuple(np.frombuffer(data, dtype).reshape(shape) for data, shape, dtype in tables)
    axes = tuple(axis_of(table, size) for table, size in zip(windows, sizes, strict=True))
    return WindowGeometry(axes, batch), WindowGeometry(tuple(map(inverted, axes)), batch)
