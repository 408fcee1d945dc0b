"""What the graph generators share: drawn numbers, a graph under construction with a pool of values to continue from,
and weights that are new, shared or seen through a view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Shape, View

LARGEST = 48
"""Most scalars of one value, so that the oracle takes milliseconds."""
DENSITIES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)

T = TypeVar("T")


@dataclass
class Maker:
    """A graph under construction. It shares `layers` with the bodies of its scans, so that they can share weights."""

    draw: st.DrawFn
    b: Builder = field(default_factory=Builder)
    pool: list[int] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    density: float = 0.5
    depth: int = 0

    def inside(self, body: Builder, pool: Sequence[int]) -> Maker:
        return replace(self, b=body, pool=list(pool), depth=self.depth + 1)

    # Drawing

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flip(self) -> bool:
        return self.draw(st.booleans())

    def rarely(self) -> bool:
        return self.number(0, 5) == 5

    def choose(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def bools(self, shape: Sequence[int], density: float) -> Bools:
        """Draw one seed for the whole array: drawing every element would cost more than the oracle."""
        if density == 1.0:
            return np.ones(shape, dtype=bool)
        return np.asarray(np.random.default_rng(self.number(0, 2**16)).random(shape) < density)

    def nonzero(self, shape: Sequence[int]) -> Bools:
        """Draw a bias, shift or scale: mostly mixed, sometimes all zero or all non-zero."""
        return self.bools(shape, self.choose((0.5, 0.2, 0.0, 1.0, 0.8)))

    def maybe_nonzero(self, shape: Sequence[int]) -> Bools | None:
        return self.nonzero(shape) if self.flip() else None

    # Values

    def value(self, least_rank: int = 0) -> int | None:
        """Draw a value from the pool, more often a late one, which makes deep graphs."""
        fit = [x for x in self.pool if len(self.b.shape(x)) >= least_rank]
        if not fit:
            return None
        return self.choose(fit[-2:]) if self.flip() else self.choose(fit)

    def any_value(self) -> int:
        return self.choose(self.pool[-2:]) if self.flip() else self.choose(self.pool)

    def fitted(self, x: int, shape: Sequence[int]) -> int:
        """Crop, repeat or zero-pad x to a shape."""
        have, want = math.prod(self.b.shape(x)), math.prod(shape)
        if have == want:
            return self.b.reshape(x, shape)
        flat = np.arange(want)
        index = flat % have if self.flip() else np.where(flat < have, flat, -1)
        return self.b.gather(x, index.reshape(tuple(shape)))

    # Weights

    def layer(self, shape: Sequence[int], op: str = "linear", density: float | None = None) -> Layer:
        kept = self.bools(shape, self.density if density is None else density)
        if self.flip():  # every row keeps one element: otherwise deep graphs at low densities are entirely dead
            rows = kept.reshape(len(kept), -1)
            columns = np.random.default_rng(self.number(0, 2**16)).integers(rows.shape[1], size=len(rows))
            rows[np.arange(len(rows)), columns] = True
        made = Layer(f"w{len(self.layers)}", op, tuple(shape), lambda: kept, op == "embedding")
        self.layers.append(made)
        return made

    def weight(self, shape: Sequence[int], b: Builder | None = None) -> int:
        """Return a weight of this shape as an operator uses it."""
        b, shape, size = b or self.b, tuple(shape), math.prod(shape)
        how = self.number(0, 7)
        old = [layer for layer in self.layers if math.prod(layer.shape) >= size]
        if how == 7 and old:
            layer = self.choose(old)
            return b.weight(layer, shape, self.view(math.prod(layer.shape), shape))
        if how == 6:
            turned = shape[::-1]
            strides = tuple(math.prod(turned[i + 1 :]) for i in range(len(turned)))[::-1]
            return b.weight(self.layer(turned), shape, View(0, strides))
        if how == 5:
            stored = size + self.number(0, 6)
            return b.weight(self.layer((stored,)), shape, self.view(stored, shape))
        return b.weight(self.layer(shape), shape)

    def view(self, stored: int, shape: Shape) -> View:
        size = math.prod(shape)
        if self.flip():
            rng = np.random.default_rng(self.number(0, 2**16))
            return View(index=rng.integers(-1, stored, size=shape))
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        return View(self.number(0, stored - size), strides)
