"""What stands for an ONNX value while a model is lowered: a node of the graph (Live), a constant (Known) or a
sequence of such (Items). A Known remembers which stored elements it is made of, so that a weight behind transposes,
casts and masks is still counted as the tensor that the file holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from effsparse_cli.formats.onnx.stored import Array, Origin, Stored, nonzero
from effsparse_cli.graph.primitives import Bools, Shape

SMALL = 1 << 16
"""Constants up to this many elements are held once computed; larger ones are computed again when asked for."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """A stored tensor as an operand of a computation."""

    stored: Stored


@dataclass(frozen=True, eq=False)
class Record:
    """An operator that was evaluated on constants; operands that were computed from stored tensors are recipes."""

    call: Any
    inputs: tuple[Recipe | Known | None, ...]


@dataclass(frozen=True, eq=False)
class Made:
    """Result `position` of a recorded operator."""

    record: Record
    position: int


@dataclass(frozen=True, eq=False)
class Arranged:
    """The same elements, moved."""

    given: Recipe
    move: Callable[[Array], Array]


Recipe = Leaf | Made | Arranged


@dataclass(eq=False)
class Known:
    """A value that no model input reaches, computed when asked for. `mask` says what is kept where the file has
    a mask, and `bare` is the value before it; `plain` that every element is a stored one, unchanged; `derived` that
    stored tensors went into it; `depth` how many operators computing it takes. `mixed` has the constants, as they were
    before, whose stored elements were mixed into it; `recipe` says how it was computed from stored tensors."""

    shape: Shape
    compute: Callable[[], Array]
    origin: Origin | None = None
    mask: Known | None = None
    plain: bool = False
    derived: bool = False
    _held: Array | None = None
    bare: Known | None = None
    depth: int = 0
    mixed: tuple[Known, ...] = ()
    recipe: Recipe | None = None

    @property
    def text(self) -> bool:
        """Does it hold strings?"""
        stored = self.origin.stored if self.origin is not None else None
        dtype = stored.dtype if stored is not None else self._held.dtype if self._held is not None else None
        return dtype is not None and dtype.kind in "OSU"

    @property
    def array(self) -> Array:
        if self._held is not None:
            return self._held
        array = self.compute()
        if array.size <= SMALL:
            self._held = array
        return array

    def kept(self) -> Bools:
        return nonzero((self.mask or self).array)

    def moved(self, move: Callable[[Array], Array]) -> Known:
        """`move` must be pure data movement; it is applied to values, addresses and mask alike."""
        origin = self.origin.moved(move) if self.origin is not None else None
        held = None if origin is not None else move(self.array)
        shape = held.shape if origin is None and held is not None else origin.where.shape if origin else ()
        mask, bare = (part.moved(move) if part is not None else None for part in (self.mask, self.bare))
        depth = self.depth + 1
        moved = Known(shape, lambda: move(self.array), origin, mask, self.plain, self.derived, held, bare, depth)
        moved.mixed, moved.recipe = self.mixed, Arranged(self.recipe, move) if self.recipe is not None else None
        return moved

    def settled(self) -> Known:
        """The same value, computed now and held."""
        array = self.array
        mask, bare = (part.settled() if part is not None else None for part in (self.mask, self.bare))
        settled = Known(self.shape, lambda: array, self.origin, mask, self.plain, self.derived, array, bare)
        settled.mixed, settled.recipe = self.mixed, self.recipe
        return settled

    def altered(self, change: Callable[[], Array], mask: Known | None = None, bare: Known | None = None) -> Known:
        """The same elements in the same places with other values: cast, scaled, masked, dequantised."""
        altered = Known(self.shape, change, self.origin, mask, False, self.derived, bare=bare)
        altered.mixed, altered.recipe = self.mixed, self.recipe
        return altered


def note_zero_point(known: Known, points: Array) -> None:
    """Remembers what stands for zero in the stored tensor behind a constant; `points` broadcast to it."""
    if known.origin is not None and known.origin.stored is not None:
        known.origin.stored.zero_points.append((known.origin, points))


def minus(value: Known, points: Array) -> Known:
    """A stored tensor counted from its zero points."""
    note_zero_point(value, points)
    return value.altered(lambda: value.array.astype(np.int64) - points)


def known(array: Array, derived: bool = False) -> Known:
    return Known(array.shape, lambda: array, derived=derived, _held=array)


@dataclass(frozen=True, eq=False)
class Live:
    """A node of the graph under construction. `allowed` is False where a constant mask of minus infinity was
    added; `shifted` says that a zero there stands for the zero point of a quantised tensor."""

    node: int
    allowed: Bools | None = None
    shifted: bool = False


@dataclass(frozen=True, eq=False)
class Items:
    """An ONNX sequence of known length."""

    values: tuple[Live | Known | Items, ...]


Value = Live | Known | Items
