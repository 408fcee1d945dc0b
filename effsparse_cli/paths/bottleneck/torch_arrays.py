"""Arrays of the bottleneck semiring (max, min) in torch, on any device: BOTTLENECK of lattice.py, operation by
operation. An axis is stored with size 1 if the values along it are equal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from effsparse_cli.graph.primitives import Bools, Ints, Shape, Taps
from effsparse_cli.paths import devices
from effsparse_cli.paths.lattice import matching

ZERO, ONE = -math.inf, math.inf


class TorchBottleneck:
    def __init__(self, device: str, dtype: torch.dtype) -> None:
        self.device = devices.find_device(device, dtype)
        self.dtype = dtype

    def lift(self, nonzero: Bools, shape: Shape) -> Tensor:
        return devices.send(np.where(nonzero, ONE, ZERO), self.device, self.dtype)

    def support(self, a: Tensor) -> Tensor:
        return a

    def any(self, a: Tensor) -> bool:
        return bool(devices.fetch((a > ZERO).any()))

    def is_one(self, a: Tensor) -> bool:
        return bool(devices.fetch((a == ONE).all()))

    def same(self, a: Tensor, b: Tensor) -> bool:
        return a is b or devices.equal(a, b)

    def plus(self, terms: Sequence[Tensor]) -> Tensor:
        result = terms[0]
        for term in terms[1:]:
            result = torch.maximum(result, term)
        return result

    def total(self, a: Tensor, axes: Sequence[int]) -> Tensor:
        spread = [i for i in axes if a.shape[i] != 1]
        return best(a, spread, keepdim=True)

    def product(self, equation: str, a: Tensor, b: Tensor) -> Tensor:
        terms, result = equation.split("->")
        left, right = terms.split(",")
        summed = "".join(c for c in left if c in right and c not in result)
        alone = [(a, left, right), (b, right, left)]
        a, b = (self.total(x, [i for i, c in enumerate(own) if c not in other + result]) for x, own, other in alone)
        for i, j in ((left.index(c), right.index(c)) for c in summed):
            if 1 in (a.shape[i], b.shape[j]):  # the sum needs no product where one factor is equal along it
                a, b = self.total(a, (i,)), self.total(b, (j,))
        x, y = _align(a, left, result + summed), _align(b, right, result + summed)
        n = len(result)
        x, y = x.reshape(*x.shape[:n], -1), y.reshape(*y.shape[:n], -1)
        found = torch.minimum(x.select(-1, 0), y.select(-1, 0))
        for k in range(1, x.shape[-1]):  # one at a time, to save memory: all products at once may be large
            torch.maximum(found, torch.minimum(x.select(-1, k), y.select(-1, k)), out=found)
        return found

    # Data movement

    def expand(self, a: Tensor, shape: Shape) -> Tensor:
        return a

    def permute(self, a: Tensor, dims: Sequence[int]) -> Tensor:
        return a.permute(tuple(dims))

    def reshape(self, a: Tensor, old: Shape, new: Shape) -> Tensor:
        if a.numel() == 1:
            return a.reshape((1,) * len(new))
        stored_new: list[int] = []
        stored_old: list[int] = []
        for i, j in matching(old, new):
            uniform = all(a.shape[k] == 1 for k in i)
            stored_old += [a.shape[k] if uniform else old[k] for k in i]
            stored_new += [1 if uniform else new[k] for k in j]
        return a.expand(stored_old).reshape(stored_new)

    def take(self, a: Tensor, axis: int, index: Ints) -> Tensor:
        taken = a if a.shape[axis] == 1 else a.index_select(axis, self._indices(np.maximum(index, 0)))
        return self._where(taken, index >= 0, axis)

    def put(self, a: Tensor, axis: int, index: Ints, size: int) -> Tensor:
        inside = index >= 0
        if a.shape[axis] == 1:
            covered = np.zeros(size, bool)
            covered[index[inside]] = True
            return self._where(a, covered, axis)
        result = torch.full((*a.shape[:axis], size, *a.shape[axis + 1 :]), ZERO, dtype=self.dtype, device=self.device)
        moved = a.index_select(axis, self._indices(np.flatnonzero(inside)))
        where = self._indices(index[inside]).reshape([-1 if i == axis else 1 for i in range(a.ndim)])
        return result.scatter_reduce_(axis, where.expand_as(moved), moved, "amax")

    def concat(self, parts: Sequence[Tensor], axis: int, sizes: Sequence[int]) -> Tensor:
        rest = np.broadcast_shapes(*((*p.shape[:axis], 1, *p.shape[axis + 1 :]) for p in parts))
        grown = [p.expand(*rest[:axis], n, *rest[axis + 1 :]) for p, n in zip(parts, sizes, strict=True)]
        return torch.cat(grown, dim=axis)

    def split(self, a: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
        if a.shape[axis] == 1:
            return [a] * len(sizes)
        ends = np.cumsum(sizes).tolist()
        return [a.narrow(axis, end - n, n) for end, n in zip(ends, sizes, strict=True)]

    def unwindow(self, a: Tensor, axis: int, table: Taps, size: int) -> Tensor:
        return self.plus([self.put(a, axis, row, size) for row in table])

    def window(self, a: Tensor, axis: int, table: Taps) -> Tensor:
        if a.shape[axis] == 1:
            return self._where(a, np.asarray((table >= 0).any(axis=0)), axis)
        return self.plus([self.take(a, axis, row) for row in table])

    def _where(self, a: Tensor, holds: Bools, axis: int) -> Tensor:
        """a where it holds along an axis, zero elsewhere."""
        if holds.all():
            return a
        shape = [-1 if i == axis else 1 for i in range(a.ndim)]
        return torch.where(devices.send(holds, self.device).reshape(shape), a, ZERO)

    def _indices(self, index: Ints) -> Tensor:
        return devices.send(index, self.device, torch.int64)


def best(a: Tensor, axes: Sequence[int], keepdim: bool = False) -> Tensor:
    """Return the maximum along axes; of nothing, zero."""
    if not axes:
        return a
    if a.numel():
        return a.amax(dim=tuple(axes), keepdim=keepdim)
    shape = [1 if i in axes else n for i, n in enumerate(a.shape) if keepdim or i not in axes]
    return a.new_full(shape, ZERO)


def _align(a: Tensor, letters: str, target: str) -> Tensor:
    """Return the axes in the order of `target`, with size 1 for letters that `a` does not have. Dropped axes have size
    1."""
    kept = a.reshape([n for n, c in zip(a.shape, letters, strict=True) if c in target])
    own = "".join(c for c in letters if c in target)
    ordered = kept.permute([own.index(c) for c in target if c in own])
    sizes = iter(ordered.shape)
    return ordered.reshape([next(sizes) if c in own else 1 for c in target])
