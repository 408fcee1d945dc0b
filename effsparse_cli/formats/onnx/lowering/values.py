"""What lowering knows of an ONNX value: a node of the graph (LiveValue), a constant (ConstantValue), or a sequence of
such values (SequenceValue). A constant value keeps track of the stored elements that it consists of, so that a weight
after transposes, casts and masks still counts as the tensor in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from effsparse_cli.formats.onnx.tensors.stored import Array, Origin, Stored, may_be_learned, nonzero
from effsparse_cli.graph.primitives import Bools, Shape

SMALL = 1 << 16
"""Number of elements up to which constants are held once computed. Larger ones are computed again when needed."""


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


Recipe = Stored | Made | Arranged
"""How a constant was computed. A stored tensor is itself."""


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
    def stored(self) -> Stored | None:
        """The tensor that has all of its elements, if there is one."""
        return self.origin.stored if self.origin is not None else None

    @property
    def text(self) -> bool:
        """Whether it holds strings."""
        source = self.stored or self._held
        return source is not None and source.dtype.kind in "OSU"

    @property
    def learned(self) -> bool:
        """Whether it may be a weight or a learned table: not indices, shapes, flags or text."""
        if not self.derived or len(self.shape) < 2 or self.text:
            return False
        return may_be_learned((self.stored or self.array).dtype, self.shape)

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
        where = origin.where if origin is not None else move(self.array)
        return replace(
            self,
            shape=where.shape,
            compute=lambda: move(self.array),
            origin=origin,
            mask=self.mask.moved(move) if self.mask is not None else None,
            bare=self.bare.moved(move) if self.bare is not None else None,
            depth=self.depth + 1,
            recipe=Arranged(self.recipe, move) if self.recipe is not None else None,
            _held=where if origin is None else None,
        )

    def settled(self) -> ConstantValue:
        """Return the same value, computed now and held."""
        array = self.array
        mask, bare = (part.settled() if part is not None else None for part in (self.mask, self.bare))
        return replace(self, compute=lambda: array, mask=mask, bare=bare, depth=0, _held=array)

    def altered(
        self, change: Callable[[], Array], mask: ConstantValue | None = None, bare: ConstantValue | None = None
    ) -> ConstantValue:
        """Return the same elements with other values: cast, scaled, masked or dequantized."""
        return replace(self, compute=change, mask=mask, bare=bare, unchanged=False, depth=0, _held=None)


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
