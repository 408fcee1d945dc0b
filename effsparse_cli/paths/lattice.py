"""Arrays of the semirings whose sum is a maximum and whose product is a minimum, in numpy: boolean (or, and) and
bottleneck (max, min).

An axis is stored with size 1 if the values along it are equal, so that a whole channel takes one element and feature
maps appear only where they must. Broadcasting does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Ints, Shape, Taps

Array = NDArray[Any]


def _ones_and_zeros(a: Bools, b: Bools) -> Bools:
    """Multiply zeros and ones as float32: a sum of ones cannot vanish."""
    product: Bools = np.matmul(a.astype(np.float32), b.astype(np.float32)) > 0
    return product


def _best_of_worst(a: Array, b: Array) -> Array:
    """Multiply [..., i, k] by [..., k, j], one k at a time: the maximum over k of the minimum of both."""
    result = np.minimum(a[..., :, :1], b[..., :1, :])
    for k in range(1, a.shape[-1]):
        np.maximum(result, np.minimum(a[..., :, k : k + 1], b[..., k : k + 1, :]), out=result)
    return result


@dataclass(frozen=True)
class Lattice:
    """The arrays of one semiring: its sum, product, zero and one."""

    plus_: np.ufunc
    times: np.ufunc
    zero: Any
    one: Any
    matmul: Callable[[Array, Array], Array]

    def lift(self, nonzero: Bools, shape: Shape) -> Array:
        return np.asarray(np.where(nonzero, self.one, self.zero))

    def support(self, a: Array) -> Array:
        return a

    def any(self, a: Array) -> bool:
        return bool((a > self.zero).any())

    def is_one(self, a: Array) -> bool:
        return bool((a == self.one).all())

    def same(self, a: Array, b: Array) -> bool:
        return a is b or np.array_equal(a, b)

    def plus(self, terms: Sequence[Array]) -> Array:
        result = terms[0]
        for term in terms[1:]:
            result = self.plus_(result, term)
        return result

    def total(self, a: Array, axes: Sequence[int]) -> Array:
        spread = tuple(i for i in axes if a.shape[i] != 1)
        return self._sum(a, spread, keepdims=True) if spread else a

    def _sum(self, a: Array, axes: tuple[int, ...], keepdims: bool = False) -> Array:
        return np.asarray(self.plus_.reduce(a, axis=axes, keepdims=keepdims, initial=self.zero))

    def product(self, equation: str, a: Array, b: Array) -> Array:
        terms, result = equation.split("->")
        left, right = terms.split(",")
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
            return np.asarray(self.times(_align(a, left, result), _align(b, right, result)))
        return self._matmul(a, left, b, right, summed, result)

    def _drop(self, a: Array, letters: str, gone: Sequence[str]) -> tuple[Array, str]:
        axes = tuple(letters.index(c) for c in gone)
        return (self._sum(a, axes), "".join(c for c in letters if c not in gone)) if axes else (a, letters)

    def _matmul(self, a: Array, left: str, b: Array, right: str, summed: Sequence[str], result: str) -> Array:
        batch = "".join(c for c in result if c in left and c in right)
        rows = "".join(c for c in result if c in left and c not in right)
        columns = "".join(c for c in result if c not in left)
        inner = "".join(summed)
        x, y = _align(a, left, batch + rows + inner), _align(b, right, batch + inner + columns)
        n, r = len(batch), len(rows)
        x_flat = x.reshape(*x.shape[:n], math.prod(x.shape[n : n + r]), -1)
        z = self.matmul(x_flat, y.reshape(*y.shape[:n], x_flat.shape[-1], -1))
        z = z.reshape((*z.shape[:n], *x.shape[n : n + r], *y.shape[n + len(inner) :]))
        letters = batch + rows + columns
        return z.transpose([letters.index(c) for c in result])

    # Data movement

    def expand(self, a: Array, shape: Shape) -> Array:
        return a

    def permute(self, a: Array, dims: Sequence[int]) -> Array:
        return a.transpose(dims)

    def reshape(self, a: Array, old: Shape, new: Shape) -> Array:
        if a.size == 1:
            return a.reshape((1,) * len(new))
        stored_new: list[int] = []
        stored_old: list[int] = []
        for i, j in matching(old, new):
            uniform = all(a.shape[k] == 1 for k in i)
            stored_old += [a.shape[k] if uniform else old[k] for k in i]
            stored_new += [1 if uniform else new[k] for k in j]
        if a.shape != tuple(stored_old):
            a = np.broadcast_to(a, stored_old)
        return a.reshape(stored_new)

    def _where(self, a: Array, holds: Bools, axis: int) -> Array:
        """a where it holds along an axis, zero elsewhere."""
        if holds.all():
            return a
        return np.where(holds.reshape([-1 if i == axis else 1 for i in range(a.ndim)]), a, self.zero)

    def take(self, a: Array, axis: int, index: Ints) -> Array:
        if len(index) == 1 and index[0] >= 0:
            place = int(index[0]) if a.shape[axis] > 1 else 0
            return a[(slice(None),) * axis + (slice(place, place + 1),)]
        taken = a if a.shape[axis] == 1 else a.take(np.maximum(index, 0), axis=axis)
        return self._where(taken, index >= 0, axis)

    def put(self, a: Array, axis: int, index: Ints, size: int) -> Array:
        inside = index >= 0
        where = index[inside]
        if a.shape[axis] == 1:
            covered = np.zeros(size, bool)
            covered[where] = True
            return self._where(a, covered, axis)
        result = np.full((*a.shape[:axis], size, *a.shape[axis + 1 :]), self.zero, a.dtype)
        front, moved = np.moveaxis(result, axis, 0), np.moveaxis(a, axis, 0)[inside]
        if (np.diff(where) > 0).all() or len(np.unique(where)) == len(where):
            front[where] = moved
        else:
            order = np.argsort(where, kind="stable")
            starts = np.flatnonzero(np.diff(where[order], prepend=-1))
            front[where[order][starts]] = self.plus_.reduceat(moved[order], starts, axis=0)
        return result

    def concat(self, parts: Sequence[Array], axis: int, sizes: Sequence[int]) -> Array:
        if all(p.size == 1 and p.reshape(-1)[0] == parts[0].reshape(-1)[0] for p in parts):
            return parts[0]
        rest = np.broadcast_shapes(*((*p.shape[:axis], 1, *p.shape[axis + 1 :]) for p in parts))
        grown = [np.broadcast_to(p, (*rest[:axis], n, *rest[axis + 1 :])) for p, n in zip(parts, sizes, strict=True)]
        return np.concatenate(grown, axis=axis)

    def split(self, a: Array, axis: int, sizes: Sequence[int]) -> list[Array]:
        return [a] * len(sizes) if a.shape[axis] == 1 else np.split(a, np.cumsum(sizes[:-1]), axis=axis)

    def window(self, a: Array, axis: int, table: Taps) -> Array:
        if a.shape[axis] == 1:
            return self._where(a, np.asarray((table >= 0).any(axis=0)), axis)
        return self.plus([self.take(a, axis, row) for row in table])

    def unwindow(self, a: Array, axis: int, table: Taps, size: int) -> Array:
        if a.shape[axis] == 1:
            return self.put(a, axis, table.reshape(-1), size)
        return self.plus([self.put(a, axis, row, size) for row in table])


DENSE = Lattice(np.logical_or, np.logical_and, np.False_, np.True_, _ones_and_zeros)
BOTTLENECK = Lattice(np.maximum, np.minimum, -np.inf, np.inf, _best_of_worst)


def _align(a: Array, letters: str, target: str) -> Array:
    """Return the axes in the order of `target`, with size 1 for letters that `a` does not have."""
    if letters == target:
        return a
    ordered = a.transpose([letters.index(c) for c in target if c in letters])
    sizes = iter(ordered.shape)
    return ordered.reshape([next(sizes) if c in letters else 1 for c in target])


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
