"""Weights of the boolean semiring: one bit per connection, each stored tensor scanned once. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.numbers import Numbers as Stored
from effsparse_cli.graph.primitives import Contract, Shape, View, Weight
from effsparse_cli.kernel.bits import Words, words_of
from effsparse_cli.kernel.plain import Numbers
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.edges import Ends, Use
from effsparse_cli.paths.geometry import both_ways
from effsparse_cli.paths.maps import Maps, Value, dense, numbers_of, sort, uniform, value_of
from effsparse_cli.paths.packing import Kept, pack_all

NONE = np.empty(0, np.uint64)


class Channels(NamedTuple):
    """The channels of a value along `axis`: the number of the map of each, None if all are full; the table of these
    maps, None if there are only empty and full ones; and the sizes of the batch."""

    axis: int
    numbers: Numbers | None
    table: Words | None
    batch: Shape


class BitWeights:
    """`scanned` holds the bits of all weights; without it each is read when it is used."""

    def __init__(self, layers: Mapping[str, Layer], scanned: Mapping[Weight, Kept] | None = None) -> None:
        self._layers = layers
        self._scanned = dict(scanned or {})

    def contract(self, x: Value, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Value:
        words = self._kept(weight, shape).words
        if _is_nothing(x) or not words.size:
            return uniform(False, len(x_shape))
        source = _channels(x, x_shape, len(op.windows))
        way, _ = both_ways(op, x_shape, source.batch)
        found = kernel.forward(words, op.groups, _inputs(shape), source.numbers, source.table, way.geometry)
        return value_of(found, source.axis, (*source.batch, *way.out))

    def contract_back(
        self, y: Value, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Value:
        words = self._kept(weight, shape).words
        if _is_nothing(y) or not words.size:
            return uniform(False, len(x_shape))
        target = _channels(y, y_shape, len(op.windows))
        _, way = both_ways(op, x_shape, target.batch)
        found = kernel.backward(words, op.groups, _inputs(shape), target.numbers, target.table, way.geometry)
        return value_of(found, target.axis, (*target.batch, *way.out))

    def meet(
        self, x: Flow[Value], y: Value, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Use:
        kept = self._kept(weight, shape)
        live = nonzero = _ends(x.live, y, shapes, op, kept, shape)
        if x.nonzero is not x.live:
            nonzero = _ends(x.nonzero, y, shapes, op, kept, shape)
        return Use(weight, shape, _grouped(kept.words, op.groups), live, nonzero)

    def meet_everywhere(self, x: Flow[Value], y: Value, weight: Weight, shape: Shape) -> Use:
        words = self._kept(weight, shape).words[None]
        source, target = (np.zeros_like(words) if _is_nothing(a) else None for a in (x.live, y))
        return Use(weight, shape, words, Ends(source, target), Ends(None, target))

    def merge(self, a: Use, b: Use) -> Use:
        return a.merge(b)

    def _kept(self, weight: Weight, shape: Shape) -> Kept:
        if weight not in self._scanned:
            self._scanned.update(scan_weights({weight: shape}, self._layers))
        return self._scanned[weight]


def _ends(x: Value, y: Value, shapes: tuple[Shape, Shape], op: Contract, kept: Kept, shape: Shape) -> Ends:
    rank = len(op.windows)
    source, target = _channels(x, shapes[0], rank), _channels(y, shapes[1], rank)
    if source.batch != target.batch:
        batch = tuple(map(max, source.batch, target.batch))
        source, target = (_channels(a, s, rank, batch) for a, s in zip((x, y), shapes, strict=True))
    way, _ = both_ways(op, shapes[0], source.batch)
    everywhere = source.table is None and target.table is None and way.all_ever
    if not kept.words.size or (everywhere and source.numbers is None and target.numbers is None):
        n = kept.number
        return Ends(tally=(n, n, n, n, n, kept.empty))
    missed = NONE if everywhere else np.zeros(kept.words.shape, np.uint64)
    given = source.numbers, source.table, target.numbers, target.table
    sources, targets, some, tally = kernel.meet(kept.words, op.groups, _inputs(shape), *given, missed, way.geometry)
    return Ends(
        None if sources is None else np.frombuffer(sources, np.uint64).reshape(op.groups, 1, -1),
        None if targets is None else np.frombuffer(targets, np.uint64).reshape(op.groups, -1, 1),
        _grouped(missed, op.groups) if some else None,
        tally,
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


def scan_weights(shapes: Mapping[Weight, Shape], layers: Mapping[str, Layer]) -> dict[Weight, Kept]:
    """What weights keep, as [rows, words], in the shapes in which operators use them; what is used twice alike is read
    once. A matrix that is stored by columns is scanned as it is stored: its bits are quickly turned, its numbers are
    not."""
    wanted, keys, turned = {}, {}, set()
    for weight, shape in shapes.items():
        layer, view = layers[weight.layer], weight.view
        if _by_columns(view, shape, layer):
            turned.add(weight)
            view, shape = View(), shape[::-1]
        index = None if view.index is None else id(view.index)
        keys[weight] = key = layer.name, shape, view.offset, view.strides, index
        wanted[key] = layer.kept if isinstance(layer.kept, Stored) else Stored(layer.kept, layer.shape), view, shape
    found = pack_all(wanted)
    return {
        weight: _transposed(found[key], *shapes[weight]) if weight in turned else found[key]
        for weight, key in keys.items()
    }


def _transposed(kept: Kept, rows: int, columns: int) -> Kept:
    """[columns, words] to [rows, words]."""
    turned = np.empty((rows, words_of(columns)), np.uint64)
    kernel.transpose(kept.words, turned, columns, rows)
    open_ = turned[turned[:, 0] == 0] if turned.size else turned
    return Kept(turned, kept.number, len(open_) - int(np.count_nonzero(open_.any(axis=1))))


def _by_columns(view: View, shape: Shape, layer: Layer) -> bool:
    if view.strides is None or len(shape) != 2 or view.strides != (1, shape[0]):
        return False
    return view.offset == 0 and math.prod(shape) == math.prod(layer.shape)


def _is_nothing(a: Value) -> bool:
    return not isinstance(a, Maps) and a.size == 1 and not a.item()
