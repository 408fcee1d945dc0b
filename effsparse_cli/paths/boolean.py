"""Weights of the boolean semiring: one bit per connection, each stored tensor scanned once. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Contract, Shape, View, Weight
from effsparse_cli.graph.scan import Arrange, Numbers, scan
from effsparse_cli.paths import boolean_contract
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.boolean_contract import Channels
from effsparse_cli.paths.edges import Ends, Use
from effsparse_cli.paths.maps import Maps, Space, Value, dense, sort, space_of
from effsparse_cli.paths.rows import Kept, Rows, kept_of, rows_of
from effsparse_cli.paths.shifts import Shifts, shifts_of
from effsparse_cli.paths.transpose import transpose
from effsparse_cli.paths.views import arrange


class BitWeights:
    """`scanned` holds the bits of all weights; without it each is read when it is used. Weights that work on the same
    values should have the same `spaces`."""

    def __init__(
        self,
        layers: Mapping[str, Layer],
        scanned: Mapping[Weight, Kept] | None = None,
        spaces: dict[Shape, Space] | None = None,
    ) -> None:
        self.spaces: dict[Shape, Space] = {} if spaces is None else spaces
        self._layers = layers
        self._scanned = scanned
        self._rows: dict[Weight, Rows] = {}
        self._ways: dict[tuple[Contract, Shape, Shape], tuple[Shifts, Shifts]] = {}

    def contract(self, x: Value, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Value:
        if _is_nothing(x):
            return x
        source, batch = self._channels(x, x_shape, len(op.windows))
        shifts, _ = self._both_ways(op, x_shape, batch)
        rows = self._packed(weight, shape, op.groups)
        return boolean_contract.forward(source, rows, shifts, space_of((*batch, *shifts.out), self.spaces))

    def contract_back(
        self, y: Value, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Value:
        if _is_nothing(y):
            return y
        target, batch = self._channels(y, y_shape, len(op.windows))
        _, shifts = self._both_ways(op, x_shape, batch)
        rows = self._packed(weight, shape, op.groups)
        return boolean_contract.backward(target, rows, shifts, space_of((*batch, *shifts.out), self.spaces))

    def meet(
        self, x: Flow[Value], y: Value, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Use:
        rows = self._packed(weight, shape, op.groups)
        live = nonzero = self._ends(x.live, y, shapes, op, rows)
        if x.nonzero is not x.live:
            nonzero = self._ends(x.nonzero, y, shapes, op, rows)
        return Use(weight, shape, rows, live, nonzero)

    def _ends(self, x: Value, y: Value, shapes: tuple[Shape, Shape], op: Contract, rows: Rows) -> Ends:
        rank = len(op.windows)
        source, batch = self._channels(x, shapes[0], rank)
        target, other = self._channels(y, shapes[1], rank)
        if batch != other:
            batch = tuple(map(max, batch, other))
            source, target = (self._channels(a, s, rank, batch)[0] for a, s in zip((x, y), shapes, strict=True))
        return boolean_contract.meet(source, target, rows, *self._both_ways(op, shapes[0], batch))

    def meet_everywhere(self, x: Flow[Value], y: Value, weight: Weight, shape: Shape) -> Use:
        rows = self._packed(weight, shape, 1)
        source, target = (rows.all & ~rows.all if _is_nothing(a) else None for a in (x.live, y))
        return Use(weight, shape, rows, Ends(source, target), Ends(None, target))

    def merge(self, a: Use, b: Use) -> Use:
        return a.merge(b)

    def _channels(self, a: Value, shape: Shape, rank: int, grown: Shape | None = None) -> tuple[Channels, Shape]:
        """By the channels before `rank` spatial axes, and the sizes of the batch before them, as stored or grown."""
        axis = len(shape) - rank - 1
        if a.size == 1:
            return Channels(axis, None if a.item() else np.zeros(shape[axis], np.intp), None), (1,) * axis  # type: ignore[union-attr]
        if not isinstance(a, Maps) or a.axis != axis:
            a = sort(dense(a), axis, self.spaces)
        if not isinstance(a, Maps):
            return Channels(axis, a.reshape(-1).astype(np.intp), None), (1,) * axis
        batch = grown or a.space.rest[:axis]
        a = a.over((*batch, *shape[axis + 1 :]))
        numbers = a.numbers if len(a.numbers) == shape[axis] else np.broadcast_to(a.numbers, shape[axis])
        return Channels(axis, numbers, a.space), batch

    def _both_ways(self, op: Contract, x_shape: Shape, batch: Shape) -> tuple[Shifts, Shifts]:
        key = op, x_shape, batch
        if key not in self._ways:
            self._ways[key] = shifts_of(op, x_shape[len(x_shape) - len(op.windows) :], math.prod(batch))
        return self._ways[key]

    def _packed(self, weight: Weight, shape: Shape, groups: int) -> Rows:
        if weight not in self._rows:
            scanned = self._scanned or scan_weights({weight: shape}, self._layers)
            channels, taps = shape[1] if len(shape) > 1 else 1, math.prod(shape[2:])
            self._rows[weight] = rows_of(scanned[weight], groups, channels, taps)
        return self._rows[weight]


def scan_weights(shapes: Mapping[Weight, Shape], layers: Mapping[str, Layer]) -> dict[Weight, Kept]:
    """What weights keep in the shapes in which operators use them; what is used twice alike is read once. A matrix that
    is stored by columns is scanned as it is stored: its bits are quickly turned, its numbers are not."""
    turned = {weight for weight, shape in shapes.items() if _by_columns(weight.view, shape, layers[weight.layer])}
    parts = {w: (View(), shape[::-1]) if w in turned else (w.view, shape) for w, shape in shapes.items()}
    keys = {weight: (weight.layer, shape, *_view(view)) for weight, (view, shape) in parts.items()}
    found = scan({key: _asked(layers[weight.layer], *parts[weight]) for weight, key in keys.items()}, kept_of)
    return {
        weight: kept_of(transpose(found[key].words, shapes[weight][0])) if weight in turned else found[key]
        for weight, key in keys.items()
    }


def _by_columns(view: View, shape: Shape, layer: Layer) -> bool:
    whole = view.offset == 0 and math.prod(shape) == math.prod(layer.shape)
    return whole and len(shape) == 2 and view.strides == (1, shape[0])


def _view(view: View) -> tuple[object, ...]:
    return view.offset, view.strides, None if view.index is None else id(view.index)


def _asked(layer: Layer, view: View, shape: Shape) -> tuple[Numbers, Arrange, Shape]:
    kept = layer.kept if isinstance(layer.kept, Numbers) else Numbers(layer.kept, layer.shape)
    return kept, partial(arrange, view=view, shape=shape, zero=0), shape


def _is_nothing(a: Value) -> bool:
    return a.size == 1 and not a.item()  # type: ignore[union-attr]
