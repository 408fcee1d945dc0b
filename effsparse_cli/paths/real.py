"""The real semiring (+, x) in torch: l1 path norms on any device, the paper's own pass.

Float64 with one binary exponent per array, so that depth can neither overflow nor vanish; or saturated to
{0, 1} after every step, which is exact in any precision and at any depth. Arrays have their full shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Bools, Contract, Ints, Shape, Taps, Weight
from effsparse_cli.paths.bits import Words, pack
from effsparse_cli.paths.taps import invert
from effsparse_cli.paths.views import arrange

TINY = 2.0**-1000


@dataclass(frozen=True, eq=False)
class Scaled:
    """data * 2**exponent; data is at most 1 and, where it is not zero, at least TINY."""

    data: Tensor
    exponent: int = 0


class Real:
    def __init__(self, layers: dict[str, Layer], device: str, saturate: bool) -> None:
        self._layers = layers
        self._device = torch.device(device)
        self._dtype = torch.float32 if saturate else torch.float64
        self._saturate = saturate
        self._weights: dict[Weight, Tensor] = {}

    def _settle(self, data: Tensor, exponent: int = 0) -> Scaled:
        """Brings the largest element to about 1. What would vanish beside it stays the least there is:
        a value may be off, but never whether there is a path."""
        if self._saturate:
            return Scaled((data > 0).to(self._dtype))
        peak = float(data.max()) if data.numel() else 0.0
        if peak == 0.0:
            return Scaled(data)
        shift = math.frexp(peak)[1]
        scaled = torch.ldexp(data, torch.tensor(-shift, device=data.device))
        return Scaled(torch.where((data > 0) & (scaled < TINY), TINY, scaled), exponent + shift)

    def _at(self, a: Scaled, exponent: int) -> Tensor:
        if a.exponent == exponent:
            return a.data
        lowered = torch.ldexp(a.data, torch.tensor(max(a.exponent - exponent, -2000), device=a.data.device))
        return torch.where((a.data > 0) & (lowered < TINY), TINY, lowered)

    # Arrays

    def lift(self, nonzero: Bools, shape: Shape) -> Scaled:
        return Scaled(torch.tensor(nonzero).to(self._device, self._dtype).expand(shape))

    def support(self, a: Scaled) -> Scaled:
        return Scaled((a.data > 0).to(self._dtype))

    def any(self, a: Scaled) -> bool:
        return bool((a.data > 0).any())

    def everywhere(self, a: Scaled) -> bool:
        return bool((a.data > 0).all())

    def same(self, a: Scaled, b: Scaled) -> bool:
        return a is b or (a.exponent == b.exponent and torch.equal(a.data, b.data))

    def plus(self, terms: Sequence[Scaled]) -> Scaled:
        if len(terms) == 1:
            return terms[0]
        present = [t.exponent for t in terms if t.data.any()]
        top = max(present, default=0)
        total = self._at(terms[0], top) if terms[0].data.any() else terms[0].data
        for term in terms[1:]:
            total = total + (self._at(term, top) if term.data.any() else term.data)
        return self._settle(total, top)

    def product(self, equation: str, a: Scaled, b: Scaled) -> Scaled:
        return self._settle(torch.einsum(equation, a.data, b.data), a.exponent + b.exponent)

    def total(self, a: Scaled, axes: Sequence[int]) -> Scaled:
        return self._settle(a.data.sum(dim=tuple(axes), keepdim=True), a.exponent) if axes else a

    def expand(self, a: Scaled, shape: Shape) -> Scaled:
        return Scaled(a.data.expand(shape), a.exponent)

    def permute(self, a: Scaled, dims: Sequence[int]) -> Scaled:
        return Scaled(a.data.permute(tuple(dims)), a.exponent)

    def reshape(self, a: Scaled, old: Shape, new: Shape) -> Scaled:
        return Scaled(a.data.reshape(new), a.exponent)

    def take(self, a: Scaled, axis: int, index: Ints) -> Scaled:
        return Scaled(self._take(a.data, axis, index), a.exponent)

    def put(self, a: Scaled, axis: int, index: Ints, size: int) -> Scaled:
        where = torch.from_numpy(np.where(index >= 0, index, size)).to(self._device)
        shape = (*a.data.shape[:axis], size + 1, *a.data.shape[axis + 1 :])
        result = torch.zeros(shape, dtype=self._dtype, device=self._device)
        return self._settle(result.index_add_(axis, where, a.data).narrow(axis, 0, size), a.exponent)

    def concat(self, parts: Sequence[Scaled], axis: int, sizes: Sequence[int]) -> Scaled:
        top = max((p.exponent for p in parts if p.data.any()), default=0)
        return Scaled(torch.cat([self._at(p, top) if p.data.any() else p.data for p in parts], dim=axis), top)

    def window(self, a: Scaled, axis: int, table: Taps) -> Scaled:
        read = self._windows(a.data, axis, table)
        return self._settle(read.sum(dim=axis), a.exponent)

    def _windows(self, data: Tensor, axis: int, table: Taps) -> Tensor:
        """One axis becomes two: taps, positions."""
        read = self._take(data, axis, table.reshape(-1))
        return read.reshape(*data.shape[:axis], *table.shape, *data.shape[axis + 1 :])

    def _take(self, data: Tensor, axis: int, index: Ints) -> Tensor:
        if (index >= 0).all():
            return data.index_select(axis, torch.from_numpy(np.ascontiguousarray(index)).to(self._device))
        zero = torch.zeros((*data.shape[:axis], 1, *data.shape[axis + 1 :]), dtype=self._dtype, device=self._device)
        where = torch.from_numpy(np.where(index >= 0, index, data.shape[axis])).to(self._device)
        return torch.cat([data, zero], dim=axis).index_select(axis, where)

    # Weights

    def contract(self, x: Scaled, x_shape: Shape, op: Contract, weight: Weight, weight_shape: Shape) -> Scaled:
        columns = self._columns(x.data, op)
        y = torch.einsum("bgjo,gnj->bgno", columns, self._matrix(weight, weight_shape, op.groups))
        out = tuple(t.shape[1] for t in op.windows)
        return self._settle(y.reshape(*_batch(x_shape, op), weight_shape[0], *out), x.exponent)

    def contract_back(
        self, y: Scaled, y_shape: Shape, op: Contract, weight: Weight, weight_shape: Shape, x_shape: Shape
    ) -> Scaled:
        w = self._matrix(weight, weight_shape, op.groups)
        flat = y.data.reshape(math.prod(_batch(y_shape, op)), op.groups, w.shape[1], -1)
        columns = torch.einsum("bgno,gnj->bgjo", flat, w)
        taps, out = [t.shape[0] for t in op.windows], [t.shape[1] for t in op.windows]
        data = columns.reshape(columns.shape[0], op.groups * weight_shape[1], *taps, *out)
        for i, table in enumerate(op.windows):
            size = x_shape[len(x_shape) - len(op.windows) + i]
            data = self._fold(data, 2, 2 + len(op.windows), invert(table, size))
        return self._settle(data.reshape(x_shape), y.exponent)

    def _fold(self, data: Tensor, tap_axis: int, axis: int, inverse: Taps) -> Tensor:
        """Sums the taps of one spatial axis back to the input positions that they read."""
        moved = data.movedim(tap_axis, -1).movedim(axis - 1, -2)  # [..., out, taps]
        n_taps = moved.shape[-1]
        tap = np.arange(n_taps)[:, None]
        flat = np.where(inverse >= 0, inverse * n_taps + tap, -1)
        return self._windows(moved.flatten(-2), moved.ndim - 2, flat).sum(dim=-2).movedim(-1, axis - 1)

    def meet(
        self, x: Scaled, y: Scaled, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, weight_shape: Shape
    ) -> tuple[Words, Words, Words]:
        w = self._matrix(weight, weight_shape, op.groups)
        columns = self._columns(x.data, op)
        flat = y.data.reshape(math.prod(_batch(shapes[1], op)), op.groups, w.shape[1], -1)
        paths = torch.einsum("bgjo,bgno->gnj", self.support(Scaled(columns)).data, self.support(Scaled(flat)).data)
        spatial = tuple(range(-len(op.windows), 0))
        channels = (x.data > 0).movedim(-len(spatial) - 1, -1).reshape(-1, op.groups, weight_shape[1]).any(dim=0)
        taps = math.prod(weight_shape[2:])
        source = channels[..., None].expand(-1, -1, taps).reshape(op.groups, 1, -1).expand(-1, w.shape[1], -1)
        target = (flat > 0).any(dim=3).any(dim=0)[..., None].expand(-1, -1, w.shape[2])
        return tuple(_words(t) for t in ((paths > 0) & (w > 0), source, target))  # type: ignore[return-value]

    def kept(self, weight: Weight, weight_shape: Shape, groups: int) -> Words:
        return _words(self._matrix(weight, weight_shape, groups) > 0)

    def _matrix(self, weight: Weight, shape: Shape, groups: int) -> Tensor:
        """[groups, rows, channels * taps] of zeros and ones."""
        if weight not in self._weights:
            kept = arrange(self._layers[weight.layer].kept(), weight.view, shape)
            matrix = torch.tensor(kept.reshape(groups, shape[0] // groups, -1))
            self._weights[weight] = matrix.to(self._device, self._dtype)
        return self._weights[weight]

    def _columns(self, data: Tensor, op: Contract) -> Tensor:
        """[*batch, channels, *spatial] to [batch, groups, channels * taps, out]: im2col from the tables."""
        rank = len(op.windows)
        split = data.ndim - rank - 1
        batch = math.prod(data.shape[:split])
        result = data.reshape(batch, data.shape[split], *data.shape[split + 1 :])
        for i, table in enumerate(op.windows):
            axis = 2 + 2 * i  # an axis that was read has become two: taps, positions
            result = self._windows(result, axis, table)
        order = [0, 1, *(2 + 2 * i for i in range(rank)), *(3 + 2 * i for i in range(rank))]
        return result.permute(order).reshape(batch, op.groups, -1, math.prod(t.shape[1] for t in op.windows))


def _batch(shape: Shape, op: Contract) -> Shape:
    return shape[: len(shape) - len(op.windows) - 1]


def _words(truth: Tensor) -> Words:
    return pack(truth.cpu().numpy())
