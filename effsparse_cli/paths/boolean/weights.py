"""Weights of the boolean semiring: contractions, and which connections join live to relevant channels. No torch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.primitives import Contract, Shape, Weight
from effsparse_cli.kernel.bits import Words
from effsparse_cli.kernel.numpy_loops import Tally
from effsparse_cli.kernel.structures import MapNumbers
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.boolean.geometry import build_geometries, find_geometries
from effsparse_cli.paths.boolean.maps import (
    BoolValue,
    ChannelMaps,
    channel_numbers,
    group_channels,
    to_array,
    uniform,
    value_from_numbers,
)
from effsparse_cli.paths.boolean.packing import PackedWeights
from effsparse_cli.paths.edges import Ends, WeightUse

NO_WORDS = np.empty(0, np.uint64)
LINEAR, _ = build_geometries((), (), 1)


class Channels(NamedTuple):
    """The channels of a value along `axis`: the number of each one's map, None if all are full; the table of maps, None
    if there are only empty and full ones; and the sizes of the batch."""

    axis: int
    numbers: MapNumbers | None
    table: Words | None
    batch: Shape


class BitWeights:
    """A matrix that is used transposed is contracted as it is stored: backward for forward, and the reverse."""

    def __init__(self, packed: PackedWeights) -> None:
        self._packed = packed

    def contract(self, x: BoolValue, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> BoolValue:
        stored = self._packed.stored(weight)
        if _is_empty(x) or not stored.words.size:
            return uniform(False, len(x_shape))
        source = _channels(x, x_shape, len(op.windows))
        window, adjoint = find_geometries(op, x_shape, source.batch)
        if self._is_transposed(op, weight):
            found = kernel.backward(stored.words, 1, shape[0], source.numbers, source.table, adjoint.geometry)
        elif source.numbers is None and window.all_always and not self._count_empty_rows(weight, shape):
            return uniform(True, len(x_shape))  # every row is full, without a look at them
        else:
            words = self._packed.rows(weight)
            found = kernel.forward(words, op.groups, _inputs(shape), source.numbers, source.table, window.geometry)
        return value_from_numbers(found, source.axis, (*source.batch, *window.out))

    def contract_back(
        self, y: BoolValue, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> BoolValue:
        stored = self._packed.stored(weight)
        if _is_empty(y) or not stored.words.size:
            return uniform(False, len(x_shape))
        target = _channels(y, y_shape, len(op.windows))
        window, adjoint = find_geometries(op, x_shape, target.batch)
        if self._is_transposed(op, weight):
            found = kernel.forward(stored.words, 1, shape[0], target.numbers, target.table, window.geometry)
        else:
            words = self._packed.rows(weight)
            found = kernel.backward(words, op.groups, _inputs(shape), target.numbers, target.table, adjoint.geometry)
        return value_from_numbers(found, target.axis, (*target.batch, *adjoint.out))

    def _is_transposed(self, op: Contract, weight: Weight) -> bool:
        return self._packed.is_transposed(weight) and not op.windows and op.groups == 1

    def meet(
        self, x: Flow[BoolValue], y: BoolValue, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> WeightUse:
        live = nonzero = self._find_ends(x.live, y, shapes, op, weight, shape)
        if x.nonzero is not x.live:
            nonzero = self._find_ends(x.nonzero, y, shapes, op, weight, shape)
        return WeightUse(weight, shape, lambda: _grouped(self._packed.rows(weight), op.groups), live, nonzero)

    def meet_everywhere(self, x: Flow[BoolValue], y: BoolValue, weight: Weight, shape: Shape) -> WeightUse:
        target = not _is_empty(y)
        live, nonzero = (
            self._all_or_none(weight, shape, source=source, target=target) for source in (not _is_empty(x.live), True)
        )
        return WeightUse(weight, shape, lambda: self._packed.rows(weight)[None], live, nonzero)

    def merge(self, a: WeightUse, b: WeightUse) -> WeightUse:
        return a.merge(b)

    def _find_ends(
        self, x: BoolValue, y: BoolValue, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Ends:
        rank = len(op.windows)
        source, target = _channels(x, shapes[0], rank), _channels(y, shapes[1], rank)
        if source.batch != target.batch:
            batch = tuple(map(max, source.batch, target.batch))
            source, target = (_channels(a, s, rank, batch) for a, s in zip((x, y), shapes, strict=True))
        window, _ = find_geometries(op, shapes[0], source.batch)
        everywhere = source.table is None and target.table is None and window.all_ever
        if 0 in shape or (everywhere and source.numbers is None and target.numbers is None):
            return self._all_or_none(weight, shape, source=True, target=True)
        words = self._packed.rows(weight)
        missed = NO_WORDS if everywhere else np.zeros(words.shape, np.uint64)
        maps = source.numbers, source.table, target.numbers, target.table
        met = kernel.meet(words, op.groups, _inputs(shape), *maps, missed, window.geometry)
        return Ends(
            None if met.source is None else np.frombuffer(met.source, np.uint64).reshape(op.groups, 1, -1),
            None if met.target is None else np.frombuffer(met.target, np.uint64).reshape(op.groups, -1, 1),
            _grouped(missed, op.groups) if met.has_missed else None,
            met.tally,
        )

    def _all_or_none(self, weight: Weight, shape: Shape, *, source: bool, target: bool) -> Ends:
        """Every connection has a source or none has, and likewise a target."""
        none, kept = np.zeros((1, 1, 1), np.uint64), self._packed.stored(weight).kept
        dead_rows = self._count_empty_rows(weight, shape) if source and target else shape[0]
        tally = Tally.all_or_none(kept, source=source, target=target, dead_rows=dead_rows)
        return Ends(None if source else none, None if target else none, None, tally)

    def _count_empty_rows(self, weight: Weight, shape: Shape) -> int:
        stored = self._packed.stored(weight)
        if not self._packed.is_transposed(weight):
            return stored.empty_rows
        if not stored.words.size:
            return shape[0]
        used = kernel.backward(stored.words, 1, shape[0], None, None, LINEAR.geometry)
        return shape[0] - int(np.count_nonzero(channel_numbers(value_from_numbers(used, 0, ()), shape[0])))


class SplitWeights:
    """Paths run over the connections of `kept`; results are those of the connections of `reported`."""

    def __init__(self, kept: BitWeights, reported: BitWeights) -> None:
        self.contract, self.contract_back = kept.contract, kept.contract_back
        self.meet, self.meet_everywhere, self.merge = reported.meet, reported.meet_everywhere, reported.merge


def _channels(a: BoolValue, shape: Shape, rank: int, batch: Shape | None = None) -> Channels:
    """Return the channels, which are the axis before `rank` spatial axes; by default the batch is as stored."""
    axis = len(shape) - rank - 1
    stored = batch or (1,) * axis
    if not isinstance(a, ChannelMaps) and a.size == 1:
        return Channels(axis, None if a.item() else np.zeros(shape[axis], np.int32), None, stored)
    if not isinstance(a, ChannelMaps) or a.axis != axis:
        a = group_channels(to_array(a), axis)
    if not isinstance(a, ChannelMaps):
        return Channels(axis, channel_numbers(a, shape[axis]), None, stored)
    stored = batch or a.rest[:axis]
    a = a.over((*stored, *shape[axis + 1 :]))
    return Channels(axis, channel_numbers(a, shape[axis]), a.table, stored)


def _grouped(words: Words, groups: int) -> Words:
    return words.reshape(groups, len(words) // groups, words.shape[1])


def _inputs(shape: Shape) -> int:
    return shape[1] if len(shape) > 1 else 1


def _is_empty(a: BoolValue) -> bool:
    return not isinstance(a, ChannelMaps) and a.size == 1 and not a.item()
