"""The verbs that path rules are written in. A semiring implements them once; the rules never ask which.

Arrays belong to a logical shape that the caller knows. An implementation may store an axis with size 1
where the values along it are equal, so every verb that needs a logical size is given it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from effsparse_cli.graph.primitives import Bools, Contract, Ints, Shape, Taps, Weight
from effsparse_cli.paths.bits import Words

T = TypeVar("T")


class Algebra(Protocol[T]):
    def lift(self, nonzero: Bools, shape: Shape) -> T:
        """One where a known array is true."""

    def support(self, a: T) -> T:
        """One where a is not zero."""

    def any(self, a: T) -> bool: ...

    def everywhere(self, a: T) -> bool: ...

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

    def window(self, a: T, axis: int, table: Taps) -> T:
        """The sum over the taps of one axis."""

    def contract(self, x: T, x_shape: Shape, op: Contract, weight: Weight, weight_shape: Shape) -> T: ...

    def contract_back(
        self, y: T, y_shape: Shape, op: Contract, weight: Weight, weight_shape: Shape, x_shape: Shape
    ) -> T: ...

    def meet(
        self, x: T, y: T, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, weight_shape: Shape
    ) -> tuple[Words, Words, Words]:
        """Connections that join a non-zero x to a non-zero y, those with a non-zero source position,
        those with a non-zero target position: [groups, rows, words], broadcastable."""

    def kept(self, weight: Weight, weight_shape: Shape, groups: int) -> Words: ...
