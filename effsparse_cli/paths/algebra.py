"""The operations that path rules are written in. Each semiring implements them; the rules do not know which one runs.

Arrays have a logical shape that the caller knows. An implementation may store an axis with size 1 where the values
along it are equal, so every operation that needs a logical size takes it as an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from effsparse_cli.graph.primitives import Bools, Contract, Ints, Shape, Taps, Weight

T = TypeVar("T")
F = TypeVar("F")


@dataclass(frozen=True, eq=False)
class Flow(Generic[T]):
    """A value on the way forward: `live` has the paths from an input, `nonzero` is set where it is not always zero.
    Both are the same object if no constant is involved."""

    live: T
    nonzero: T


class Arrays(Protocol[T]):
    """Sums, products and data movement."""

    def lift(self, nonzero: Bools, shape: Shape) -> T:
        """Return one where `nonzero` is true, zero elsewhere."""

    def support(self, a: T) -> T:
        """Return `a` as a side factor: whether there is a path, not how many."""

    def any(self, a: T) -> bool: ...

    def is_one(self, a: T) -> bool:
        """Whether adding anything to `a` changes nothing."""

    def same(self, a: T, b: T) -> bool: ...

    def plus(self, terms: Sequence[T]) -> T:
        """Return the semiring's sum, with broadcasting."""

    def product(self, equation: str, a: T, b: T) -> T:
        """Return the semiring's einsum. Axes of size 1 broadcast."""

    def total(self, a: T, axes: Sequence[int]) -> T:
        """Return the sum over axes, which keep size 1."""

    def expand(self, a: T, shape: Shape) -> T: ...

    def permute(self, a: T, dims: Sequence[int]) -> T: ...

    def reshape(self, a: T, old: Shape, new: Shape) -> T: ...

    def take(self, a: T, axis: int, index: Ints) -> T:
        """Select positions along an axis; -1 selects zero."""

    def put(self, a: T, axis: int, index: Ints, size: int) -> T:
        """Apply the adjoint of take: sum into an axis of the given size."""

    def concat(self, parts: Sequence[T], axis: int, sizes: Sequence[int]) -> T: ...

    def split(self, a: T, axis: int, sizes: Sequence[int]) -> list[T]:
        """Apply the adjoint of concat."""

    def window(self, a: T, axis: int, table: Taps) -> T:
        """Return the sum over the taps of one axis."""

    def unwindow(self, a: T, axis: int, table: Taps, size: int) -> T:
        """Apply the adjoint of window: sum every output position into the positions that it was read from."""


class Weights(Protocol[T, F]):
    """Contractions by a weight, and results for its connections (F)."""

    def contract(self, x: T, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> T:
        """Go forward; `shape` is that of the weight."""

    def contract_back(self, y: T, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape) -> T: ...

    def meet(self, x: Flow[T], y: T, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape) -> F:
        """Return forward(source) x weight x backward(target) for each connection, summed over positions."""

    def meet_everywhere(self, x: Flow[T], y: T, weight: Weight, shape: Shape) -> F:
        """Return the same where every connection is used everywhere; x and y have no axes."""

    def merge(self, a: F, b: F) -> F:
        """Unite two uses of a weight by the same operator, at different steps."""
