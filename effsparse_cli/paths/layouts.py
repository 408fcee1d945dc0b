"""The canonical layout of a layer: its elements in the order in which operators use them, with outputs as rows.

Scores are drawn and compared in this layout, so that files of one model agree however each of them stores it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Ints, Shape, View
from effsparse_cli.paths.views import covers_once, positions


@dataclass(frozen=True, eq=False)
class Layout:
    """`view` has the stored position of each element. `rows` is True if `shape` is that of an operator,
    [outputs, inputs, *taps], and False if it is the stored one because uses disagree."""

    shape: Shape
    stored: Shape
    view: View = field(default_factory=View)
    rows: bool = True

    def read(self, values: NDArray[Any]) -> NDArray[Any]:
        """Arrange values from the stored shape in the canonical one."""
        flat = values.reshape(-1)
        if self.view.index is not None:
            return flat[self.view.index].reshape(self.shape)
        return np.ascontiguousarray(self._strided(flat))

    def write(self, values: NDArray[Any]) -> NDArray[Any]:
        """Arrange values from the canonical shape in the stored one."""
        if self.view.strides is None and self.view.index is None:
            return values.reshape(self.stored)
        stored = np.empty(values.size, values.dtype)
        if self.view.index is not None:
            stored[self.view.index] = values.reshape(-1)
        else:
            self._strided(stored)[...] = values.reshape(self.shape)
        return stored.reshape(self.stored)

    def has_rows_of(self, view: View, shape: Shape) -> bool:
        """Whether a view of the stored tensor in this shape has the same rows."""
        mine = self.view
        same = (mine.offset, mine.strides) == (view.offset, view.strides) and mine.index is view.index is None
        return same and shape[:1] == self.shape[:1]

    def stored_positions(self, canonical: Ints) -> Ints:
        """Return flat positions in the stored tensor of flat positions in the canonical layout."""
        if self.view.index is not None:
            return self.view.index[canonical]
        if self.view.strides is None:
            return canonical
        places = np.unravel_index(canonical, self.shape)
        steps = (at * stride for at, stride in zip(places, self.view.strides, strict=True))
        return sum(steps, start=np.full(canonical.shape, self.view.offset))

    def _strided(self, flat: NDArray[Any]) -> NDArray[Any]:
        if self.view.strides is None:
            return flat.reshape(self.shape)
        strides = [flat.itemsize * stride for stride in self.view.strides]
        return np.lib.stride_tricks.as_strided(flat[self.view.offset :], self.shape, strides)


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
            return Layout(shape, layer.shape, view)
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
        return Layout((sum(shape[0] for shape in shapes), *shapes[0][1:]), layer.shape, View(index=order))
    return Layout(layer.shape, layer.shape, View(index=order), rows=False)


def _first_of_each(where: Ints) -> Ints:
    """Return the distinct positions in order of first appearance."""
    return where[np.sort(np.unique(where, return_index=True)[1])]
