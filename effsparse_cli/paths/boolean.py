"""Weights of the boolean semiring: one bit per connection. No torch."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.primitives import Contract, Shape, Weight
from effsparse_cli.kernel.bits import Words
from effsparse_cli.kernel.structures import MapNumbers, Tally
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.edges import Ends, Seen, Use
from effsparse_cli.paths.geometry import both_ways
from effsparse_cli.paths.maps import Maps, Value, dense, numbers_of, sort, uniform, value_of
from effsparse_cli.paths.packing import KeptRows, PackedWeights

NONE = np.empty(0, np.uint64)


class Channels(NamedTuple):
    """The channels of a value along `axis`: the number of the map of each, None if all are full; the table of these
    maps, None if there are only empty and full ones; and the sizes of the batch."""

    axis: int
    numbers: MapNumbers | None
    table: Words | None
    batch: Shape


class BitWeights:
    def __init__(self, packed: PackedWeights) -> None:
        self._packed = packed

    def contract(self, x: Value, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Value:
        words, _, empty_rows = self._packed.kept(weight)
        if _is_nothing(x) or not words.size:
            return uniform(False, len(x_shape))
        source = _channels(x, x_shape, len(op.windows))
        way, _ = both_ways(op, x_shape, source.batch)
        if source.numbers is None and way.all_always and not empty_rows:
            return uniform(True, len(x_shape))
        found = kernel.forward(words, op.groups, _inputs(shape), source.numbers, source.table, way.geometry)
        return value_of(found, source.axis, (*source.batch, *way.out))

    def contract_back(
        self, y: Value, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Value:
        words = self._packed.rows(weight)
        if _is_nothing(y) or not words.size:
            return uniform(False, len(x_shape))
        target = _channels(y, y_shape, len(op.windows))
        _, way = both_ways(op, x_shape, target.batch)
        found = kernel.backward(words, op.groups, _inputs(shape), target.numbers, target.table, way.geometry)
        return value_of(found, target.axis, (*target.batch, *way.out))

    def meet(
        self, x: Flow[Value], y: Value, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Use:
        kept = self._packed.kept(weight)
        live = nonzero = _ends(x.live, y, shapes, op, kept, shape)
        if x.nonzero is not x.live:
            nonzero = _ends(x.nonzero, y, shapes, op, kept, shape)
        return Use(weight, shape, partial(Seen, _grouped(kept.words, op.groups), live, nonzero))

    def meet_everywhere(self, x: Flow[Value], y: Value, weight: Weight, shape: Shape) -> Use:
        kept = self._packed.kept(weight)
        source, target = not _is_nothing(x.live), not _is_nothing(y)

        def look() -> Seen:
            words = kept.words[None]
            none, some = np.zeros_like(words), None
            sources, targets = some if source else none, some if target else none
            return Seen(words, Ends(sources, targets), Ends(some, targets))

        live, nonzero = (_all_or_none(kept, some, target) for some in (source, True))
        return Use(weight, shape, look, (live, nonzero))

    def merge(self, a: Use, b: Use) -> Use:
        return a.merge(b)


def _all_or_none(rows: KeptRows, source: bool, target: bool) -> Tally:
    """Count where every connection has a source or none has, and likewise a target."""
    both = rows.kept * (source and target)
    return Tally(
        kept=rows.kept,
        with_source=rows.kept * source,
        with_target=rows.kept * target,
        with_both=both,
        active=both,
        dead_rows=rows.empty_rows if source and target else len(rows.words),
    )


def _ends(x: Value, y: Value, shapes: tuple[Shape, Shape], op: Contract, kept: KeptRows, shape: Shape) -> Ends:
    rank = len(op.windows)
    source, target = _channels(x, shapes[0], rank), _channels(y, shapes[1], rank)
    if source.batch != target.batch:
        batch = tuple(map(max, source.batch, target.batch))
        source, target = (_channels(a, s, rank, batch) for a, s in zip((x, y), shapes, strict=True))
    way, _ = both_ways(op, shapes[0], source.batch)
    everywhere = source.table is None and target.table is None and way.all_ever
    if not kept.words.size or (everywhere and source.numbers is None and target.numbers is None):
        return Ends(tally=_all_or_none(kept, source=True, target=True))
    missed = NONE if everywhere else np.zeros(kept.words.shape, np.uint64)
    maps = source.numbers, source.table, target.numbers, target.table
    met = kernel.meet(kept.words, op.groups, _inputs(shape), *maps, missed, way.geometry)
    return Ends(
        None if met.source is None else np.frombuffer(met.source, np.uint64).reshape(op.groups, 1, -1),
        None if met.target is None else np.frombuffer(met.target, np.uint64).reshape(op.groups, -1, 1),
        _grouped(missed, op.groups) if met.has_missed else None,
        met.tally,
    )


def _channels(a: Value, shape: Shape, rank: int, grown: Shape | None = None) -> Channels:
    """By the channels before `rank` spatial axes; the batch is as it is stored, or grown."""
    axis = len(shape) - rank - 1
    batch = grown or (1,) * axis
    if not isinstance(a, Maps) and a.size == 1:
        return Channels(axis, None if a.item() else np.zeros(shape[axis], np.int32), None, batch)
    if not isinstance(a, Maps) or a.axis != axis:
        a = sort(dense(a), axis)
    if not isinstance(a, Maps):
        return Channels(axis, numbers_of(a, shape[axis]), None, batch)
    batch = grown or a.rest[:axis]
    a = a.over((*batch, *shape[axis + 1 :]))
    return Channels(axis, numbers_of(a, shape[axis]), a.table, batch)


def _grouped(words: Words, groups: int) -> Words:
    return words.reshape(groups, len(words) // groups, words.shape[1])


def _inputs(shape: Shape) -> int:
    return shape[1] if len(shape) > 1 else 1


def _is_nothing(a: Value) -> bool:
    return not isinstance(a, Maps) and a.size == 1 and not a.item()
