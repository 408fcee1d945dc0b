"""What each tap of a contraction reads of a map of positions, forward and backward. A map is an integer with one bit
per position; a tap that reads at a fixed distance is a shift of its bits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache, reduce
from operator import and_, or_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from effsparse_cli.graph.primitives import Bools, Contract, Ints, Shape, Taps
from effsparse_cli.paths.maps import Space, as_bools, as_ints
from effsparse_cli.paths.rows import Rows
from effsparse_cli.paths.taps import invert, reach

MOST = 1 << 12
"""Sets of taps that are remembered."""


class Shifts:
    """One direction: tables of taps, over maps with one copy of the positions per member of the batch."""

    def __init__(self, tables: tuple[Taps, ...], sizes: Shape, batch: int) -> None:
        self._tables, self._sizes, self._batch = tables, sizes, batch
        self._counts = tuple(len(table) for table in tables)
        self.taps = math.prod(self._counts)
        self.out = tuple(table.shape[1] for table in tables)
        self.always, self.ever = reach(tables)
        self.all_always, self.all_ever = bool(self.always.all()), bool(self.ever.all())
        self._always = np.flatnonzero(self.always)
        self._moves: dict[int, tuple[tuple[Any, ...], tuple[Any, ...]]] = {}
        self._columns: dict[tuple[int, bool], Bools] = {}
        self._unions: dict[bytes, int] = {}

    def read(self, codes: Iterable[int], space: Space) -> dict[int, int]:
        """By code, number of a map * taps + tap: the output positions for which the tap reads one of the map's."""
        known, maps, distances, covers = space.reads(self), space.maps, self._distances, self.covers
        gathered: dict[int, list[int]] = {}
        for code in set(codes).difference(known):
            number, tap = divmod(code, self.taps)
            distance = distances[tap]
            if distance is None:
                gathered.setdefault(tap, []).append(number)
            elif distance < 0:
                known[code] = maps[number] << -distance & covers[tap]
            else:
                known[code] = maps[number] >> distance & covers[tap]
        for tap, numbers in gathered.items():
            bools = as_bools([maps[number] for number in numbers], (self._batch, *self._sizes))
            for number, read in zip(numbers, as_ints(self._gather(tap, bools)), strict=True):
                known[number * self.taps + tap] = read
        return known

    def saturated(self, columns: Bools) -> Bools:
        """[channels, taps] to [channels]: is there a tap among these that reads something for every position?"""
        if self.taps == 1:
            return columns[:, 0] if self.all_always else np.zeros(len(columns), bool)
        return np.asarray((columns[:, self._always] if len(self._always) < self.taps else columns).any(axis=1))

    @cached_property
    def covers(self) -> list[int]:
        """By tap: the output positions for which it reads anything."""
        covers = []
        for tap in range(self.taps):
            inside = np.ones((1, 1), bool)
            for row in self._rows(tap):
                inside = (inside[..., None] & (row >= 0)).reshape(1, -1)
            covers += as_ints(np.tile(inside, (1, self._batch)))
        return covers

    @cached_property
    def core(self) -> int:
        """The output positions for which every tap reads something."""
        core: int = reduce(and_, self.covers, (1 << self._batch * math.prod(self.out)) - 1)
        return core

    def union_of(self, key: bytes) -> int:
        """What a set of taps, one bit each, reads of a full map."""
        if key not in self._unions:
            taps = int.from_bytes(key, "little")
            if len(self._unions) == MOST:
                self._unions.clear()
            self._unions[key] = reduce(or_, (cover for tap, cover in enumerate(self.covers) if taps >> tap & 1), 0)
        return self._unions[key]

    def columns(self, rows: Rows, always: bool) -> Bools | None:
        """[channels, taps]: those that read something for every output position, None if all do; or those that never
        read anything."""
        if always and self.all_always:
            return None
        channels = len(rows.words) * rows.channels
        if (channels, always) not in self._columns:
            self._columns[channels, always] = np.tile(self.always if always else ~self.ever, (channels, 1))
        return self._columns[channels, always]

    def _rows(self, tap: int) -> list[Taps]:
        places = np.unravel_index(tap, self._counts) if self._counts else ()
        return [table[place] for table, place in zip(self._tables, places, strict=True)]

    @cached_property
    def _distances(self) -> list[int | None]:
        """By tap: how far away it reads, if that is the same for all positions."""
        return [self._find_distance(tap) for tap in range(self.taps)]

    def _find_distance(self, tap: int) -> int | None:
        if self.out[1:] != self._sizes[1:] or (self._batch > 1 and self.out != self._sizes):
            return None
        total = 0
        for row, size in zip(self._rows(tap), self._sizes, strict=True):
            away = (row - np.arange(len(row)))[row >= 0]
            if len(away) and (away != away[0]).any():
                return None
            total = total * size + (int(away[0]) if len(away) else 0)
        return total

    def _gather(self, tap: int, maps: Bools) -> Bools:
        """[maps, batch, *sizes] to [maps, batch, *output sizes]."""
        if tap not in self._moves:
            rows = self._rows(tap)
            inside = [(row >= 0).nonzero()[0] for row in rows]
            self._moves[tap] = _open(inside), _open([row[places] for row, places in zip(rows, inside, strict=True)])
        into, read = self._moves[tap]
        gathered = np.zeros((len(maps), self._batch, *self.out), bool)
        gathered[into] = maps[read]
        return gathered


def _open(places: Sequence[Ints]) -> tuple[Any, ...]:
    """The index of the places along the last axes: slices, where they follow each other in equal steps."""
    slices = [_slice(each) for each in places]
    return (..., *np.ix_(*places)) if None in slices else (..., *slices)


def _slice(places: Ints) -> slice | None:
    if len(places) < 2:
        return slice(int(places[0]), int(places[0]) + 1) if len(places) else slice(0)
    step = int(places[1] - places[0])
    if step < 1 or (np.diff(places) != step).any():
        return None
    return slice(int(places[0]), int(places[-1]) + 1, step)


Both = tuple[Shifts, Shifts]
_KNOWN: WeakKeyDictionary[Contract, dict[tuple[Shape, int], Both]] = WeakKeyDictionary()


def shifts_of(op: Contract, sizes: Shape, batch: int) -> Both:
    """Forward and backward, computed once for all contractions of the same geometry."""
    known = _KNOWN.setdefault(op, {})
    if (sizes, batch) not in known:
        tables = tuple((table.tobytes(), table.shape, table.dtype.str) for table in op.windows)
        known[sizes, batch] = _shifts(tables, sizes, batch)
    return known[sizes, batch]


@lru_cache(maxsize=256)
def _shifts(tables: tuple[tuple[bytes, Shape, str], ...], sizes: Shape, batch: int) -> Both:
    windows = tuple(np.frombuffer(data, dtype).reshape(shape) for data, shape, dtype in tables)
    inverse = tuple(invert(table, n) for table, n in zip(windows, sizes, strict=True))
    out = tuple(table.shape[1] for table in windows)
    return Shifts(windows, sizes, batch), Shifts(inverse, out, batch)
