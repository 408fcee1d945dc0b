"""Contractions over packed bits: forward, backward, and which connections join live to relevant.

A channel is empty, full, or has a map of positions; few distinct maps occur, so channels are sorted into
classes and every question is answered once per class and tap. Whole rows of bits settle what full
channels decide; only the rest is unpacked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Contract, Ints, Shape, Taps
from effsparse_cli.paths.bits import Words, fill, pack, some, unpack
from effsparse_cli.paths.channels import EMPTY, FULL, Channels, intern, join_channels, plain_maps, sort_channels
from effsparse_cli.paths.taps import gather, invert, reach


@dataclass(frozen=True, eq=False)
class Rows:
    """A weight as bits: words [groups, rows, words], each row channels * taps long."""

    words: Words
    channels: int
    taps: Shape

    @property
    def columns(self) -> int:
        return self.channels * math.prod(self.taps)

    @cached_property
    def any_column(self) -> Words:
        return _or_rows(self.words)

    @cached_property
    def any_row(self) -> Bools:
        return some(self.words, -1)

    def unpack(self, words: Words) -> Bools:
        """[..., words] to [..., channels, taps]."""
        return unpack(words, self.columns).reshape(*words.shape[:-1], self.channels, math.prod(self.taps))

    def pack(self, chosen: Bools) -> Words:
        """[..., channels, taps] (broadcastable) to [..., words]."""
        full = np.broadcast_to(chosen, (*chosen.shape[:-2], self.channels, math.prod(self.taps)))
        return pack(full.reshape(*full.shape[:-2], self.columns))


def _or_rows(words: Words) -> Words:
    """[groups, rows, words] to [groups, words]."""
    union: Words = np.bitwise_or.reduce(words, axis=1)
    return union


def forward(x: Bools, x_shape: Shape, op: Contract, rows: Rows) -> Bools:
    """Live targets."""
    rank, groups = len(op.windows), op.groups
    source = sort_channels(x, rank, x_shape[-rank - 1])
    classes = source.classes.reshape(groups, rows.channels)
    always, _ = reach(op.windows)
    full = classes == FULL
    if full.all() and always.all():
        return join_channels(rows.any_row.astype(np.intp).reshape(-1), plain_maps(x.ndim), rank)
    saturated = some(rows.words & rows.pack(full[..., None] & always)[:, None], -1)
    reading = rows.words & rows.pack((classes != EMPTY)[..., None])[:, None]
    rest = some(reading, -1) & ~saturated
    picked = saturated.astype(np.intp).reshape(-1)
    if not rest.any():
        return join_channels(picked, plain_maps(x.ndim), rank)
    bits = rows.unpack(reading[rest])
    group_of = np.nonzero(rest)[0]
    wanted = np.zeros((len(bits), bits.shape[-1], len(source.maps)), bool)
    wanted[..., FULL] = (bits & full[group_of][..., None]).any(axis=1)
    _want_partial(wanted, bits, classes[group_of])
    return _settle(picked, rest.reshape(-1), wanted, gather(source.maps, op.windows), rank)


def backward(y: Bools, y_shape: Shape, op: Contract, rows: Rows, x_shape: Shape) -> Bools:
    """Relevant sources."""
    rank, groups = len(op.windows), op.groups
    target = sort_channels(y, rank, y_shape[-rank - 1])
    classes = target.classes.reshape(groups, -1)
    tables = tuple(invert(t, n) for t, n in zip(op.windows, x_shape[len(x_shape) - rank :], strict=True))
    always, _ = reach(tables)
    full = classes == FULL
    columns = rows.any_column if full.all() else _or_rows(np.where(full[..., None], rows.words, np.uint64(0)))
    from_full = rows.unpack(columns)
    saturated = some(from_full & always, -1)
    picked = saturated.astype(np.intp).reshape(-1)
    unsettled = ~saturated
    wanted = np.zeros((*from_full.shape, len(target.maps)), bool)
    wanted[..., FULL] = from_full
    if target.partial:
        which = (classes > FULL) & some(unsettled, -1)[:, None]
        group_of = np.nonzero(which)[0]
        bits = rows.unpack(rows.words[which]) & unsettled[group_of][..., None]
        row, channel, tap = np.nonzero(bits)
        wanted[group_of[row], channel, tap, classes[which][row]] = True
    rest = (unsettled & some(wanted, (-1, -2))).reshape(-1)
    if not rest.any():
        return join_channels(picked, plain_maps(y.ndim), rank)
    wanted = wanted.reshape(-1, *wanted.shape[2:])[rest]
    return _settle(picked, rest, wanted, gather(target.maps, tables), rank)


def meet(x: Bools, y: Bools, shapes: tuple[Shape, Shape], op: Contract, rows: Rows) -> tuple[Words, Words, Words]:
    """Active connections, those with a live source, those with a relevant target (broadcastable words)."""
    rank, groups = len(op.windows), op.groups
    source = sort_channels(x, rank, shapes[0][-rank - 1])
    target = sort_channels(y, rank, shapes[1][-rank - 1])
    from_class, to_class = source.classes.reshape(groups, -1), target.classes.reshape(groups, -1)
    live, relevant = from_class != EMPTY, to_class != EMPTY
    sources, targets = rows.pack(live[..., None])[:, None], fill(relevant)[..., None]
    _, ever = reach(op.windows)
    if not source.partial and not target.partial:
        active = rows.words
        if not (live.all() and ever.all()):
            active = active & rows.pack(live[..., None] & ever)[:, None]
        return (active if relevant.all() else active & targets), sources, targets
    touches = _touches(source, target, op.windows, rows, from_class, to_class)
    masks = rows.pack(touches.transpose(2, 1, 0)[:, from_class])  # [target classes, groups, words]
    return rows.words & masks[to_class, np.arange(groups)[:, None]], sources, targets


def _touches(
    source: Channels, target: Channels, tables: tuple[Taps, ...], rows: Rows, from_class: Ints, to_class: Ints
) -> Bools:
    """[taps, source classes, target classes]: does the tap bring the one's live positions to the other's?
    Pairs of maps are compared only where a kept connection joins them."""
    gathered = gather(source.maps, tables)
    shape = np.broadcast_shapes(gathered.shape[2:], target.maps.shape[1:])
    taps, classes = gathered.shape[:2]
    brought = pack(np.broadcast_to(gathered, (taps, classes, *shape)).reshape(taps, classes, -1))
    wanted = pack(np.broadcast_to(target.maps, (len(target.maps), *shape)).reshape(len(target.maps), -1))
    touches = np.zeros((taps, classes, len(wanted)), bool)
    touches[:, :, FULL] = some(brought, -1)
    touches[:, FULL, :] = some(brought[:, FULL, None] & wanted, -1)
    if not (source.partial and target.partial):
        return touches
    which = to_class > FULL
    group_of = np.nonzero(which)[0]
    row, channel, tap = np.nonzero(rows.unpack(rows.words[which]) & (from_class > FULL)[group_of][..., None])
    asked = np.zeros_like(touches)
    asked[tap, from_class[group_of[row], channel], to_class[which][row]] = True
    t, m, n = np.nonzero(asked)
    touches[t, m, n] = some(brought[t, m] & wanted[n], -1)
    return touches


def _want_partial(wanted: Bools, bits: Bools, classes: Ints) -> None:
    """Marks [row, tap, class] for every set bit that reads a channel with a map."""
    row, channel, tap = np.nonzero(bits & (classes > FULL)[..., None])
    wanted[row, tap, classes[row, channel]] = True


def _settle(picked: NDArray[np.intp], rest: Bools, wanted: Bools, gathered: Bools, rank: int) -> Bools:
    """The channels in `rest` are the union of the gathered maps they want; the others full or empty."""
    flat = wanted.reshape(len(wanted), -1)
    first, inverse = intern(np.packbits(flat, axis=1))
    row, column = np.nonzero(flat[first])
    used, column = np.unique(column, return_inverse=True)
    words = pack(gathered.reshape(flat.shape[1], -1)[used])
    union = np.bitwise_or.reduceat(words[column], np.flatnonzero(np.diff(row, prepend=-1)))
    unions = unpack(union, math.prod(gathered.shape[2:])).reshape(len(first), *gathered.shape[2:])
    maps = np.concatenate([np.zeros_like(unions[:1]), np.ones_like(unions[:1]), unions])
    picked = picked.copy()
    picked[rest] = inverse + 2
    return join_channels(picked, maps, rank)
