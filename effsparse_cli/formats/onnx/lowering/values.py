"""What lowering knows of an ONNX value: a node of the graph (LiveValue), a constant (ConstantValue), or a sequence of
such values (SequenceValue). A constant value keeps track of the stored elements that it consists of, so that a weight
after transposes, casts and masks still counts as the tensor in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from effsparse_cli.formats.onnx.tensors.stored import Array, Origin, Stored, nonzero
from effsparse_cli.graph.primitives import Bools, Shape

SMALL = 1 << 16
"""Number of elements up to which constants are held once computed. Larger ones are computed again when needed."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """A stored tensor as an operand of a computation."""

    stored: Stored


@dataclass(frozen=True, eq=False)
class Record:
    """An op call that was evaluated on constants. Operands that were computed from stored tensors are recipes."""

    call: Any
    inputs: tuple[Recipe | ConstantValue | None, ...]


@dataclass(frozen=True, eq=False)
class Made:
    """Output `position` of a recorded op call."""

    record: Record
    position: int


@dataclass(frozen=True, eq=False)
class Arranged:
    """The same elements in other places."""

    given: Recipe
    move: Callable[[Array], Array]


Recipe = Leaf | Made | Arranged


@dataclass(eq=False)
class ConstantValue:
    """A value that does not depend on the model's input, computed when needed.

    `unchanged`: every element is a stored one, with its stored value. `derived`: stored tensors contribute to it.
    `mask` says which elements are kept, if the file has a mask, and `bare` is the value before masking. `depth` is the
    number of op calls that computing it takes. `mixed` are the constants whose stored elements were mixed into it;
    `recipe` says how it was computed from stored tensors.
    """

    shape: Shape
    compute: Callable[[], Array]
    origin: Origin | None = None
    mask: ConstantValue | None = None
    unchanged: bool = False
    derived: bool = False
    _held: Array | None = None
    bare: ConstantValue | None = None
    depth: int = 0
    mixed: tuple[ConstantValue, ...] = ()
    recipe: Recipe | None = None

    @property
    def text(self) -> bool:
        """Whether it holds strings."""
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

    def moved(self, move: Callable[[Array], Array]) -> ConstantValue:
        """Apply pure data movement to values, addresses and mask alike."""
        origin = self.origin.moved(move) if self.origin is not None else None
        held = None if origin is not None else move(self.array)
        shape = held.shape if origin is None and held is not None else origin.where.shape if origin else ()
        mask, bare = (part.moved(move) if part is not None else None for part in (self.mask, self.bare))
        depth = self.depth + 1
        moved = ConstantValue(
            shape, lambda: move(self.array), origin, mask, self.unchanged, self.derived, held, bare, depth
        )
        moved.mixed, moved.recipe = self.mixed, Arranged(self.recipe, move) if self.recipe is not None else None
        return moved

    def settled(self) -> ConstantValue:
        """Return the same value, computed now and held."""
        array = self.array
        mask, bare = (part.settled() if part is not None else None for part in (self.mask, self.bare))
        settled = ConstantValue(self.shape, lambda: array, self.origin, mask, self.unchanged, self.derived, array, bare)
        settled.mixed, settled.recipe = self.mixed, self.recipe
        return settled

    def altered(
        self, change: Callable[[], Array], mask: ConstantValue | None = None, bare: ConstantValue | None = None
    ) -> ConstantValue:
        """Return the same elements with other values: cast, scaled, masked or dequantized."""
        altered = ConstantValue(self.shape, change, self.origin, mask, False, self.derived, bare=bare)
        altered.mixed, altered.recipe = self.mixed, self.recipe
        return altered


def constant_value(array: Array, derived: bool = False) -> ConstantValue:
    return ConstantValue(array.shape, lambda: array, derived=derived, _held=array)


@dataclass(frozen=True, eq=False)
class LiveValue:
    """A node of the graph. `allowed` is False where a constant mask of minus infinity was added; if `shifted`, a zero
    stands for the zero point of a quantized tensor."""

    node: int
    allowed: Bools | None = None
    shifted: bool = False


@dataclass(frozen=True, eq=False)
class SequenceValue:
    """An ONNX sequence of known length."""

    values: tuple[LiveValue | ConstantValue | SequenceValue, ...]


Value = LiveValue | ConstantValue | SequenceValue
