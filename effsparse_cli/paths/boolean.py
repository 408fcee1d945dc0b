"""Weights of the boolean semiring: one bit per connection, each stored tensor scanned once. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Contract, Shape, Weight
from effsparse_cli.paths import boolean_contract
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.bits import Words, fill, pack
from effsparse_cli.paths.boolean_contract import Rows
from effsparse_cli.paths.edges import Use
from effsparse_cli.paths.views import arrange

BLOCK = 1 << 24


class BitWeights:
    def __init__(self, layers: Mapping[str, Layer]) -> None:
        self._layers = layers
        self._rows: dict[Weight, Rows] = {}

    def contract(self, x: Bools, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Bools:
        return boolean_contract.forward(x, x_shape, op, self._packed(weight, shape, op.groups))

    def contract_back(
        self, y: Bools, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Bools:
        return boolean_contract.backward(y, y_shape, op, self._packed(weight, shape, op.groups), x_shape)

    def meet(
        self, x: Flow[Bools], y: Bools, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Use:
        rows = self._packed(weight, shape, op.groups)
        active, source, target = boolean_contract.meet(x.live, y, shapes, op, rows)
        carrier = active if x.nonzero is x.live else boolean_contract.meet(x.nonzero, y, shapes, op, rows)[0]
        return Use(weight, shape, rows.words, active, source, target, carrier)

    def meet_everywhere(self, x: Flow[Bools], y: Bools, weight: Weight, shape: Shape) -> Use:
        kept = self._packed(weight, shape, 1).words
        source, target = (fill(a.reshape(1, 1, 1)) for a in (x.live, y))
        return Use(weight, shape, kept, kept & source & target, source, target, kept & target)

    def merge(self, a: Use, b: Use) -> Use:
        return a.merge(b)

    def _packed(self, weight: Weight, shape: Shape, groups: int) -> Rows:
        if weight not in self._rows:
            kept = arrange(self._layers[weight.layer].kept(), weight.view, shape, zero=False)
            words = _pack_rows(kept, math.prod(shape[1:])).reshape(groups, shape[0] // groups, -1)
            self._rows[weight] = Rows(words, channels=shape[1] if len(shape) > 1 else 1, taps=shape[2:])
        return self._rows[weight]


def _pack_rows(kept: Bools, columns: int) -> Words:
    """[rows, words]. What an operator reads in another order than it is stored is copied only block by block."""
    if kept.flags.c_contiguous:
        return pack(kept.reshape(len(kept), columns))
    step = max(BLOCK // max(columns, 1), 1)
    blocks = (kept[at : at + step] for at in range(0, len(kept), step))
    return np.concatenate([pack(np.ascontiguousarray(block).reshape(len(block), columns)) for block in blocks])
