"""The verbs that path rules are written in. A semiring implements them once; the rules never ask which.

Arrays belong to a logical shape that the caller knows. An implementation may store an axis with size 1
where the values along it are equal, so every verb that needs a logical size is given it.
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
    """A value forward: `live`, the paths from an input; `nonzero`, where it is not always zero. They are
    the same object where nothing constant has come in."""

    live: T
    nonzero: T


class Arrays(Protocol[T]):
    """Sums, products and data movement."""

    def lift(self, nonzero: Bools, shape: Shape) -> T:
        """One where a known array is true, zero elsewhere."""

    def support(self, a: T) -> T:
        """What matters of a as a side factor: whether there is a path, not how much of it."""

    def any(self, a: T) -> bool: ...

    def is_one(self, a: T) -> bool:
        """Can adding anything to it change nothing?"""

    def same(self, a: T, b: T) -> bool: ...

    def plus(self, terms: Sequence[T]) -> T:
        """The semiring's sum, broadcasting."""

    def product(self, equation: str, a: T, b: T) -> T:
        """The semiring's einsum; axes of size 1 broadcast."""

    def total(self, a: T, axes: Sequence[int]) -> T:
        """The sum over axes, which stay with size 1."""

    def expand(self, a: T, shape: Shape) -> T: ...

    def permute(self, a: T, dims: Sequence[int]) -> T: ...

    def reshape(self, a: T, old: Shape, new: Shape) -> T: ...

    def take(self, a: T, axis: int, index: Ints) -> T:
        """Positions along an axis, zero for -1."""

    def put(self, a: T, axis: int, index: Ints, size: int) -> T:
        """The adjoint of take: sums into an axis of the given size."""

    def concat(self, parts: Sequence[T], axis: int, sizes: Sequence[int]) -> T: ...

    def split(self, a: T, axis: int, sizes: Sequence[int]) -> list[T]:
        """The adjoint of concat."""

    def window(self, a: T, axis: int, table: Taps) -> T:
        """The sum over the taps of one axis."""

    def unwindow(self, a: T, axis: int, table: Taps, size: int) -> T:
        """The adjoint of window: every tap puts its output position back where it was read."""


class Weights(Protocol[T, F]):
    """Contractions by a weight, and what is found out about its connections (F)."""

    def contract(self, x: T, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> T:
        """Forward; `shape` is the weight's."""

    def contract_back(self, y: T, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape) -> T: ...

    def meet(self, x: Flow[T], y: T, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape) -> F:
        """For each connection: forward(source) x weight x backward(target), summed over positions."""

    def meet_everywhere(self, x: Flow[T], y: T, weight: Weight, shape: Shape) -> F:
        """The same where every connection is used everywhere; x and y have no axes."""

    def merge(self, a: F, b: F) -> F:
        """Two uses of the same weight by the same operator, at different steps."""
