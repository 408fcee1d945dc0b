"""Arrays of the semirings whose sum is a maximum and whose product is a minimum: boolean (or, and) and bottleneck (max,
min), in numpy or torch.

An axis is stored with size 1 if the values along it are equal, so that a whole channel takes one element and feature
maps appear only where they must. Broadcasting does the rest.
"""
# mypy: disable-error-code=no-any-return

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.equations import split_equation
from effsparse_cli.graph.primitives import Bools, Ints, Shape, Taps

Array = NDArray[Any]
A = TypeVar("A", bound=Any)


@dataclass(frozen=True)
class NumpyOperations:
    """What torch does in other ways, in one semiring; `matmul` if there is a fast one."""

    plus: np.ufunc
    times: np.ufunc
    zero: Any
    one: Any
    matmul: Callable[[Array, Array], Array] | None = None
    permute = staticmethod(np.transpose)
    broadcast = staticmethod(np.broadcast_to)
    concatenate = staticmethod(np.concatenate)
    send = staticmethod(np.asarray)
    fetch = staticmethod(np.asarray)

    def sum(self, a: Array, axes: tuple[int, ...], keepdims: bool = False) -> Array:
        """Return the sum over axes; of nothing, zero."""
        return np.asarray(self.plus.reduce(a, axis=axes, keepdims=keepdims, initial=self.zero))

    def where(self, holds: Bools, a: Array) -> Array:
        """Return `a` where it holds, zero elsewhere."""
        return np.where(holds, a, self.zero)

    def narrow(self, a: Array, axis: int, start: int, length: int) -> Array:
        return a[(slice(None),) * axis + (slice(start, start + length),)]

    def select(self, a: Array, axis: int, index: Ints) -> Array:
        return a.take(index, axis=axis)

    def scatter(self, a: Array, axis: int, index: Ints, size: int) -> Array:
        """Sum the positions of an axis, of which all have an index, into an axis of this size."""
        result = np.full((*a.shape[:axis], size, *a.shape[axis + 1 :]), self.zero, a.dtype)
        front, moved = np.moveaxis(result, axis, 0), np.moveaxis(a, axis, 0)
        if (np.diff(index) > 0).all() or len(np.unique(index)) == len(index):
            front[index] = moved
        else:
            order = np.argsort(index, kind="stable")
            starts = np.flatnonzero(np.diff(index[order], prepend=-1))
            front[index[order][starts]] = self.plus.reduceat(moved[order], starts, axis=0)
        return result


@dataclass(frozen=True)
class Lattice(Generic[A]):
    """The arrays of one semiring. `do` is NumpyOperations, or the same for torch."""

    do: Any

    def lift(self, nonzero: Bools, shape: Shape) -> A:
        return self.do.send(np.where(nonzero, self.do.one, self.do.zero))

    def support(self, a: A) -> A:
        return a

    def any(self, a: A) -> bool:
        return bool(self.do.fetch((a > self.do.zero).any()))

    def is_one(self, a: A) -> bool:
        return bool(self.do.fetch((a == self.do.one).all()))

    def same(self, a: A, b: A) -> bool:
        return a is b or (a.shape == b.shape and bool(self.do.fetch((a == b).all())))

    def plus(self, terms: Sequence[A]) -> A:
        return reduce(self.do.plus, terms)

    def total(self, a: A, axes: Sequence[int]) -> A:
        spread = tuple(i for i in axes if a.shape[i] != 1)
        return self.do.sum(a, spread, keepdims=True) if spread else a

    def product(self, equation: str, a: A, b: A) -> A:
        left, right, result = split_equation(equation)
        summed = [c for c in left if c in right and c not in result]
        a, left = self._drop(a, left, [c for c in left if c not in right + result])
        b, right = self._drop(b, right, [c for c in right if c not in left + result])
        for c in summed:  # the sum over c needs no product where one factor is equal along c
            i, j = left.index(c), right.index(c)
            if 1 in (a.shape[i], b.shape[j]):
                a, b = self.total(a, (i,)), self.total(b, (j,))
        if all(a.shape[left.index(c)] == 1 for c in summed):
            a, left = self._drop(a, left, summed)
            b, right = self._drop(b, right, summed)
            return self.do.times(self._align(a, left, result), self._align(b, right, result))
        return self._matmul(a, left, b, right, summed, result)

    def _drop(self, a: A, letters: str, gone: Sequence[str]) -> tuple[A, str]:
        axes = tuple(letters.index(c) for c in gone)
        return (self.do.sum(a, axes), "".join(c for c in letters if c not in gone)) if axes else (a, letters)

    def _align(self, a: A, letters: str, target: str) -> A:
        """Return the axes in the order of `target`, with size 1 for letters that `a` does not have."""
        if letters == target:
            return a
        ordered = self.do.permute(a, [letters.index(c) for c in target if c in letters])
        sizes = iter(ordered.shape)
        return ordered.reshape([next(sizes) if c in letters else 1 for c in target])

    def _matmul(self, a: A, left: str, b: A, right: str, summed: Sequence[str], result: str) -> A:
        batch = "".join(c for c in result if c in left and c in right)
        rows = "".join(c for c in result if c in left and c not in right)
        columns = "".join(c for c in result if c not in left)
        inner = "".join(summed)
        x, y = self._align(a, left, batch + rows + inner), self._align(b, right, batch + inner + columns)
        n, r = len(batch), len(rows)
        x_flat = x.reshape(*x.shape[:n], math.prod(x.shape[n : n + r]), -1)
        z = (self.do.matmul or self._best_of_worst)(x_flat, y.reshape(*y.shape[:n], x_flat.shape[-1], -1))
        z = z.reshape((*z.shape[:n], *x.shape[n : n + r], *y.shape[n + len(inner) :]))
        letters = batch + rows + columns
        return self.do.permute(z, [letters.index(c) for c in result])

    def _best_of_worst(self, a: A, b: A) -> A:
        """Multiply [..., i, k] by [..., k, j]: the maximum over k of the minimum of both, without much memory."""
        do, i, j = self.do, a.ndim - 1, b.ndim - 2
        result = do.times(do.narrow(a, i, 0, 1), do.narrow(b, j, 0, 1))
        for k in range(1, a.shape[-1]):
            do.plus(result, do.times(do.narrow(a, i, k, 1), do.narrow(b, j, k, 1)), out=result)
        return result

    # Data movement

    def expand(self, a: A, shape: Shape) -> A:
        return a

    def permute(self, a: A, dims: Sequence[int]) -> A:
        return self.do.permute(a, tuple(dims))

    def reshape(self, a: A, old: Shape, new: Shape) -> A:
        if math.prod(a.shape) == 1:
            return a.reshape((1,) * len(new))
        stored_new: list[int] = []
        stored_old: list[int] = []
        for i, j in matching(old, new):
            uniform = all(a.shape[k] == 1 for k in i)
            stored_old += [a.shape[k] if uniform else old[k] for k in i]
            stored_new += [1 if uniform else new[k] for k in j]
        if a.shape != tuple(stored_old):
            a = self.do.broadcast(a, stored_old)
        return a.reshape(stored_new)

    def where(self, a: A, holds: Bools, axis: int) -> A:
        """Return `a` where it holds along an axis, zero elsewhere."""
        if holds.all():
            return a
        return self.do.where(holds.reshape([-1 if i == axis else 1 for i in range(a.ndim)]), a)

    def take(self, a: A, axis: int, index: Ints) -> A:
        if len(index) == 1 and index[0] >= 0:
            place = int(index[0]) if a.shape[axis] > 1 else 0
            return self.do.narrow(a, axis, place, 1)
        taken = a if a.shape[axis] == 1 else self.do.select(a, axis, np.maximum(index, 0))
        return self.where(taken, index >= 0, axis)

    def put(self, a: A, axis: int, index: Ints, size: int) -> A:
        inside = index >= 0
        if a.shape[axis] == 1:
            covered = np.zeros(size, bool)
            covered[index[inside]] = True
            return self.where(a, covered, axis)
        if not inside.all():
            a = self.do.select(a, axis, np.flatnonzero(inside))
        return self.do.scatter(a, axis, index[inside], size)

    def concat(self, parts: Sequence[A], axis: int, sizes: Sequence[int]) -> A:
        if all(math.prod(p.shape) == 1 for p in parts) and all(self.same(p, parts[0]) for p in parts):
            return parts[0]
        rest = np.broadcast_shapes(*((*p.shape[:axis], 1, *p.shape[axis + 1 :]) for p in parts))
        shapes = [(*rest[:axis], n, *rest[axis + 1 :]) for n in sizes]
        grown = [self.do.broadcast(p, shape) for p, shape in zip(parts, shapes, strict=True)]
        return self.do.concatenate(grown, axis)

    def split(self, a: A, axis: int, sizes: Sequence[int]) -> list[A]:
        if a.shape[axis] == 1:
            return [a] * len(sizes)
        return [self.do.narrow(a, axis, end - n, n) for end, n in zip(np.cumsum(sizes).tolist(), sizes, strict=True)]

    def window(self, a: A, axis: int, table: Taps) -> A:
        if a.shape[axis] == 1:
            return self.where(a, np.asarray((table >= 0).any(axis=0)), axis)
        return self.plus([self.take(a, axis, row) for row in table])

    def unwindow(self, a: A, axis: int, table: Taps, size: int) -> A:
        if a.shape[axis] == 1:
            return self.put(a, axis, table.reshape(-1), size)
        return self.plus([self.put(a, axis, row, size) for row in table])


def multiply_bools(a: Bools, b: Bools) -> Bools:
    """Multiply zeros and ones as float32: a sum of ones cannot vanish."""
    return np.matmul(a.astype(np.float32), b.astype(np.float32)) > 0


DENSE: Lattice[Bools] = Lattice(NumpyOperations(np.logical_or, np.logical_and, np.False_, np.True_, multiply_bools))
BOTTLENECK: Lattice[Array] = Lattice(NumpyOperations(np.maximum, np.minimum, -np.inf, np.inf))


@lru_cache(maxsize=1024)
def matching(old: Shape, new: Shape) -> list[tuple[range, range]]:
    """Yield runs of old and new axes that hold the same elements."""
    runs = []
    i = j = 0
    while i < len(old) or j < len(new):
        start_i, start_j, n_i, n_j = i, j, 1, 1
        while (n_i != n_j or i == start_i or j == start_j) and (i < len(old) or j < len(new)):
            if i < len(old) and (n_i <= n_j or j == len(new)):
                n_i, i = n_i * old[i], i + 1
            else:
                n_j, j = n_j * new[j], j + 1
        runs.append((range(start_i, i), range(start_j, j)))
    return runs
