"""The canonical layout of a layer: its elements in the order in which operators use them, with outputs as rows.

Scores are drawn and compared in this layout, so that files of one model agree however each of them stores it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Ints, Shape, View
from effsparse_cli.paths.views import covers_once, positions


@dataclass(frozen=True, eq=False)
class Layout:
    """`order` has the stored position of each element, None if that is the stored order. `rows` is True if `shape` is
    that of an operator, [outputs, inputs, *taps], and False if it is the stored one because uses disagree."""

    shape: Shape
    stored: Shape
    order: Ints | None = None
    rows: bool = True

    def read(self, values: NDArray[Any]) -> NDArray[Any]:
        """Arrange values from the stored shape in the canonical one."""
        return values.reshape(self.shape) if self.order is None else values.reshape(-1)[self.order].reshape(self.shape)

    def write(self, values: NDArray[Any]) -> NDArray[Any]:
        """Arrange values from the canonical shape in the stored one."""
        if self.order is None:
            return values.reshape(self.stored)
        stored = np.empty(values.size, values.dtype)
        stored[self.order] = values.reshape(-1)
        return stored.reshape(self.stored)


def find_layouts(graph: Graph) -> dict[str, Layout]:
    uses: dict[str, list[tuple[View, Shape]]] = {name: [] for name in graph.layers}
    for weight, shape in graph.weight_shapes.items():
        # A mixed weight of the same shape is used as the stored weight would be.
        layer = graph.layer_of(weight.layer)
        if graph.layers[layer].shape == graph.operands[weight.layer].shape:
            uses[layer].append((weight.view, shape))
    return {name: _layout(layer, uses[name]) for name, layer in graph.layers.items()}


def _layout(layer: Layer, uses: list[tuple[View, Shape]]) -> Layout:
    size = math.prod(layer.shape)
    for view, shape in uses[:1]:
        if view.strides is None and view.index is None:
            return Layout(shape, layer.shape)
        if covers_once(view, shape, size):
            return Layout(shape, layer.shape, positions(view, shape, size).reshape(-1))
    return _joined(layer, uses, size)


def _joined(layer: Layer, uses: list[tuple[View, Shape]], size: int) -> Layout:
    """Stack the uses of different parts of one tensor; elements without a use come last."""
    seen = np.zeros(size, bool)
    parts: list[Ints] = []
    shapes: list[Shape] = []
    disjoint = True
    for view, shape in uses:
        where = positions(view, shape, size).reshape(-1)
        fresh = _first_of_each(where[where >= 0])
        fresh = fresh[~seen[fresh]]
        if len(fresh):
            disjoint &= len(fresh) == where.size
            parts.append(fresh)
            shapes.append(shape)
            seen[fresh] = True
    order = np.concatenate([*parts, np.flatnonzero(~seen)])
    if disjoint and bool(seen.all()) and len({shape[1:] for shape in shapes}) == 1:
        return Layout((sum(shape[0] for shape in shapes), *shapes[0][1:]), layer.shape, order)
    return Layout(layer.shape, layer.shape, order, rows=False)


def _first_of_each(where: Ints) -> Ints:
    """Return the distinct positions in order of first appearance."""
    return where[np.sort(np.unique(where, return_index=True)[1])]
