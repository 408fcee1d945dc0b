"""The boolean semiring (or, and) in numpy: which connections are active, exactly, without torch.

An array stores an axis with size 1 wherever its values along that axis are equal, so that whole channels
cost one bit and feature maps appear only where they must. Broadcasting does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Contract, Ints, Shape, Taps, Weight
from effsparse_cli.paths import boolean_contract
from effsparse_cli.paths.bits import Words, pack, some
from effsparse_cli.paths.boolean_contract import Rows
from effsparse_cli.paths.views import arrange


class Boolean:
    """Holds the packed weights of one pass: each is scanned once, however often it is used."""

    def __init__(self, layers: dict[str, Layer]) -> None:
        self._layers = layers
        self._rows: dict[Weight, Rows] = {}

    # Arrays

    def lift(self, nonzero: Bools, shape: Shape) -> Bools:
        return nonzero

    def support(self, a: Bools) -> Bools:
        return a

    def any(self, a: Bools) -> bool:
        return bool(a.any())

    def everywhere(self, a: Bools) -> bool:
        return bool(a.all())

    def same(self, a: Bools, b: Bools) -> bool:
        return a is b or np.array_equal(a, b)

    def plus(self, terms: Sequence[Bools]) -> Bools:
        result = terms[0]
        for term in terms[1:]:
            result = result | term
        return result

    def total(self, a: Bools, axes: Sequence[int]) -> Bools:
        spread = tuple(i for i in axes if a.shape[i] != 1)
        return some(a, spread, keepdims=True) if spread else a

    def product(self, equation: str, a: Bools, b: Bools) -> Bools:
        terms, result = equation.split("->")
        left, right = terms.split(",")
        summed = [c for c in left if c in right and c not in result]
        a, left = self._drop(a, left, [c for c in left if c not in right + result])
        b, right = self._drop(b, right, [c for c in right if c not in left + result])
        for c in summed:  # or over c of (a and b), one of them equal along c, needs no product
            i, j = left.index(c), right.index(c)
            if 1 in (a.shape[i], b.shape[j]):
                a, b = some(a, i, keepdims=True), some(b, j, keepdims=True)
        if all(a.shape[left.index(c)] == 1 for c in summed):
            a, left = self._drop(a, left, summed)
            b, right = self._drop(b, right, summed)
            return self._align(a, left, result) & self._align(b, right, result)
        return self._matmul(a, left, b, right, summed, result)

    @staticmethod
    def _drop(a: Bools, letters: str, gone: Sequence[str]) -> tuple[Bools, str]:
        axes = tuple(letters.index(c) for c in gone)
        return (some(a, axes), "".join(c for c in letters if c not in gone)) if axes else (a, letters)

    @staticmethod
    def _align(a: Bools, letters: str, target: str) -> Bools:
        """Axes in the order of `target`, size 1 for letters that a does not have."""
        ordered = a.transpose([letters.index(c) for c in target if c in letters])
        sizes = iter(ordered.shape)
        return ordered.reshape([next(sizes) if c in letters else 1 for c in target])

    def _matmul(self, a: Bools, left: str, b: Bools, right: str, summed: Sequence[str], result: str) -> Bools:
        """Float32 products of zeros and ones: a sum of ones cannot vanish."""
        batch = "".join(c for c in result if c in left and c in right)
        rows = "".join(c for c in result if c in left and c not in right)
        columns = "".join(c for c in result if c not in left)
        inner = "".join(summed)
        x, y = self._align(a, left, batch + rows + inner), self._align(b, right, batch + inner + columns)
        n, r = len(batch), len(rows)
        x_flat = x.reshape(*x.shape[:n], int(np.prod(x.shape[n : n + r])), -1).astype(np.float32)
        y_flat = y.reshape(*y.shape[:n], x_flat.shape[-1], -1).astype(np.float32)
        z: Bools = np.matmul(x_flat, y_flat) > 0
        z = z.reshape((*z.shape[:n], *x.shape[n : n + r], *y.shape[n + len(inner) :]))
        letters = batch + rows + columns
        return z.transpose([letters.index(c) for c in result])

    # Data movement

    def expand(self, a: Bools, shape: Shape) -> Bools:
        return a

    def permute(self, a: Bools, dims: Sequence[int]) -> Bools:
        return a.transpose(dims)

    def reshape(self, a: Bools, old: Shape, new: Shape) -> Bools:
        if a.size == 1:
            return a.reshape((1,) * len(new))
        stored_new: list[int] = []
        stored_old: list[int] = []
        for i, j in _matching(old, new):
            uniform = all(a.shape[k] == 1 for k in i)
            stored_old += [a.shape[k] if uniform else old[k] for k in i]
            stored_new += [1 if uniform else new[k] for k in j]
        return np.broadcast_to(a, stored_old).reshape(stored_new)

    def take(self, a: Bools, axis: int, index: Ints) -> Bools:
        inside = index >= 0
        if a.shape[axis] == 1:
            return a if inside.all() else a & _along(inside, axis, a.ndim)
        taken = a.take(np.maximum(index, 0), axis=axis)
        return taken if inside.all() else taken & _along(inside, axis, a.ndim)

    def put(self, a: Bools, axis: int, index: Ints, size: int) -> Bools:
        inside = index >= 0
        if a.shape[axis] == 1:
            covered = np.zeros(size, bool)
            covered[index[inside]] = True
            return a if covered.all() else a & _along(covered, axis, a.ndim)
        kept = a if inside.all() else a.compress(inside, axis=axis)
        where = index[inside]
        result = np.zeros((*a.shape[:axis], size, *a.shape[axis + 1 :]), bool)
        front, moved = np.moveaxis(result, axis, 0), np.moveaxis(kept, axis, 0)
        if len(np.unique(where)) == len(where):
            front[where] = moved
        elif len(where):
            order = np.argsort(where, kind="stable")
            starts = np.flatnonzero(np.diff(where[order], prepend=-1))
            front[where[order][starts]] = np.logical_or.reduceat(moved[order], starts, axis=0)
        return result

    def concat(self, parts: Sequence[Bools], axis: int, sizes: Sequence[int]) -> Bools:
        if all(p.size == 1 for p in parts) and len({bool(p.any()) for p in parts}) == 1:
            return parts[0]
        rest = np.broadcast_shapes(*((*p.shape[:axis], 1, *p.shape[axis + 1 :]) for p in parts))
        grown = [np.broadcast_to(p, (*rest[:axis], n, *rest[axis + 1 :])) for p, n in zip(parts, sizes, strict=True)]
        return np.concatenate(grown, axis=axis)

    def window(self, a: Bools, axis: int, table: Taps) -> Bools:
        if a.shape[axis] == 1:
            reads = some(table >= 0, 0)
            return a if reads.all() else a & _along(reads, axis, a.ndim)
        return self.plus([self.take(a, axis, row) for row in table])

    # Weights

    def contract(self, x: Bools, x_shape: Shape, op: Contract, weight: Weight, weight_shape: Shape) -> Bools:
        return boolean_contract.forward(x, x_shape, op, self.rows(weight, weight_shape, op.groups))

    def contract_back(
        self, y: Bools, y_shape: Shape, op: Contract, weight: Weight, weight_shape: Shape, x_shape: Shape
    ) -> Bools:
        return boolean_contract.backward(y, y_shape, op, self.rows(weight, weight_shape, op.groups), x_shape)

    def meet(
        self, x: Bools, y: Bools, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, weight_shape: Shape
    ) -> tuple[Words, Words, Words]:
        return boolean_contract.meet(x, y, shapes, op, self.rows(weight, weight_shape, op.groups))

    def kept(self, weight: Weight, weight_shape: Shape, groups: int) -> Words:
        return self.rows(weight, weight_shape, groups).words

    def rows(self, weight: Weight, shape: Shape, groups: int) -> Rows:
        if weight not in self._rows:
            kept = arrange(self._layers[weight.layer].kept(), weight.view, shape)
            columns = int(np.prod(shape[1:]))
            words = pack(kept.reshape(groups, shape[0] // groups, columns))
            self._rows[weight] = Rows(words, channels=shape[1], taps=shape[2:])
        return self._rows[weight]


def _along(values: Bools, axis: int, rank: int) -> Bools:
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def _matching(old: Shape, new: Shape) -> list[tuple[range, range]]:
    """Runs of old and new axes that hold the same elements."""
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
