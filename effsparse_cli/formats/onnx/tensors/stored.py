"""Tensors in a file, and where the elements of a constant come from. Every stored element has an address; numpy views
follow it through slices, transposes and reshapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Ints, Shape, View
from effsparse_cli.graph.stored_numbers import FIRST_NONFINITE, FiniteCheck, StoredNumbers

if TYPE_CHECKING:
    from effsparse_cli.formats.onnx.lowering.values import ConstantValue

Array = NDArray[Any]
WORDS = {
    "float16": (np.uint16, True),
    "bfloat16": (np.uint16, True),
    "float8_e4m3fn": (np.uint8, True),
    "float8_e5m2": (np.uint8, True),
    "float8_e4m3fnuz": (np.uint8, False),
    "float8_e5m2fnuz": (np.uint8, False),
}
"""Floats that numpy lacks or compares slowly: their words as integers, and whether the sign bit alone is a zero."""


@dataclass(eq=False)
class Stored:
    """A tensor of the file.

    `base` is the address of its first element: stored elements are numbered consecutively, so that an array of
    addresses can describe a concatenation. `zero_points` say what stands for zero if that is not 0. `repack`, for a
    tensor of packed bytes, returns the bytes with elements that are not kept set to zero.
    """

    name: str
    shape: Shape
    dtype: np.dtype[Any]
    read: Callable[[], Array]
    base: int
    used_unchanged: bool = False
    altered: list[ConstantValue] = field(default_factory=list)
    zero_points: list[tuple[Origin, Array]] = field(default_factory=list)
    repack: Callable[[Bools], Array] | None = None

    def add_use(self, constant: ConstantValue) -> None:
        """Record that a weight consists of the elements of this tensor, unchanged or with other values."""
        if constant.unchanged:
            self.used_unchanged = True
        elif constant not in self.altered:
            self.altered.append(constant)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def masked(self) -> bool:
        """Whether a mask decides what is kept, in any of its uses."""
        return any(constant.mask is not None for constant in self.altered)

    @cached_property
    def extent(self) -> NDArray[np.uint8]:
        """One byte per element, never read or written: numpy views of it say which element is where."""
        return np.empty(self.shape, np.uint8)

    @property
    def keep(self) -> Callable[[], Bools]:
        """Return what computes the kept connections: a scan of the tensor's memory if its values decide."""
        words = WORDS.get(self.dtype.name)
        if self.altered or (words is None and (self.dtype.kind not in "biufc" or self.dtype.isbuiltin != 1)):
            return self.kept
        if words is None:
            return StoredNumbers(self.read, self.shape, position=self.base, finite=self.finite)
        word, signed = words
        return StoredNumbers(
            lambda: np.ascontiguousarray(self.read()).view(word), self.shape, signed, self.base, finite=self.finite
        )

    @cached_property
    def finite(self) -> FiniteCheck | None:
        """Whether all numbers are finite; None for types that have no others."""
        if self.dtype.kind != "f":
            return None
        return FiniteCheck(lambda: _finite(self.read()), FIRST_NONFINITE.get(self.dtype.name))

    def kept(self) -> Bools:
        """Return what is kept: by the masks and values of its uses, or by its own values if no use changes them."""
        if not self.altered:
            return nonzero(self.read())
        kept = nonzero(self.read()).reshape(-1).copy()
        from_constants, covered = np.zeros_like(kept), np.zeros_like(kept)
        for constant in self.altered:
            positions, inside = self._positions(constant.origin)
            covered[positions] = True
            from_constants[positions] |= constant.kept()[inside]
        kept &= ~covered | self.used_unchanged
        return (kept | from_constants).reshape(self.shape)

    def values(self) -> Array:
        """Return the values that the operators use, before any mask."""
        values: Array = self.read()
        for constant in self.altered:
            used = constant if constant.mask is None else constant.bare
            if used is not None and not used.unchanged:
                flat = values.astype(np.float32).reshape(-1)
                positions, inside = self._positions(used.origin)
                flat[positions] = used.array[inside]
                values = flat.reshape(self.shape)
        return values

    def zeros(self) -> Array:
        """Return the stored number that stands for zero, for each element."""
        if not self.zero_points:
            return np.broadcast_to(np.int64(0), self.shape)
        zeros = np.zeros(self.size, np.int64)
        for origin, points in self.zero_points:
            positions, inside = self._positions(origin)
            zeros[positions] = np.broadcast_to(points, inside.shape)[inside]
        return zeros.reshape(self.shape)

    def _positions(self, origin: Origin | None) -> tuple[Ints, Bools]:
        """Return the flat positions of the elements that belong to this tensor, and which elements these are."""
        assert origin is not None
        positions = origin.addresses() - 1 - self.base
        inside = (positions >= 0) & (positions < self.size)
        return positions[inside], inside


@dataclass(frozen=True, eq=False)
class Origin:
    """Where each element of a constant is stored. `where` is a numpy view of the extent of `stored`, or an array of
    addresses plus one (0: a literal zero). `stored` is None if there are several tensors."""

    stored: Stored | None
    where: Array

    @property
    def strided(self) -> bool:
        return self.where.dtype == np.uint8

    def addresses(self) -> Ints:
        if not self.strided or self.stored is None:
            return self.where
        steps = [np.arange(n) * s for n, s in zip(self.where.shape, self.where.strides, strict=True)]
        start = np.asarray(self.stored.base + 1 + self._offset(), np.int64)
        return sum(np.ix_(*steps), start=start) if steps else start

    def moved(self, move: Callable[[Array], Array]) -> Origin:
        """Apply data movement (slices, reshapes, transposes) to the elements."""
        where = move(self.where)
        if self.strided and not (self.stored is not None and np.may_share_memory(where, self.stored.extent)):
            where = move(self.addresses())
        return Origin(self.stored, where)

    def view(self) -> View:
        assert self.stored is not None
        if self.strided and all(s >= 0 for s in self.where.strides):
            if self.where.size == self.stored.size and self.where.flags.c_contiguous:
                return View()
            return View(offset=self._offset(), strides=self.where.strides)
        addresses = self.addresses()
        return View(index=np.where(addresses > 0, addresses - 1 - self.stored.base, -1))

    def _offset(self) -> int:
        assert self.stored is not None
        first = self.stored.extent.__array_interface__["data"][0]
        return int(self.where.__array_interface__["data"][0] - first) if self.where.size else 0


def nonzero(array: Array) -> Bools:
    """Return where an array is not zero. -0.0 is zero; NaN and strings are not."""
    if array.dtype == bool:
        return array
    if array.dtype.kind in "OSU":
        return np.ones(array.shape, bool)
    if array.dtype.itemsize == 2 and array.dtype.kind not in "iu":
        # 16-bit floats compare slowly. Without the sign bit, only zero has no bits set.
        return np.asarray(np.asarray(array, order="C").view(np.uint16) & 0x7FFF != 0)
    return np.asarray(array != 0)


def may_be_learned(dtype: np.dtype[Any], shape: Shape) -> bool:
    """Whether it may be a weight: matrices of floats or bytes, not indices, shapes, flags or text."""
    return len(shape) > 1 and (dtype.kind not in "iubOSU" or (dtype.itemsize == 1 and dtype.kind in "iu"))


def _finite(array: Array) -> bool:
    with np.errstate(all="ignore"):
        # A finite sum has finite terms, and takes one pass. A sum that is not finite may just be large.
        return bool(np.isfinite(array.sum())) or bool(np.isfinite(array).all())
