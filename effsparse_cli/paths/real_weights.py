"""Weights of the real semiring in torch: contractions as matrix products over what the taps read."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Contract, Shape, Taps, Weight
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.bits import Words, fill, pack
from effsparse_cli.paths.edges import Use
from effsparse_cli.paths.real import RealArrays, Scaled
from effsparse_cli.paths.taps import invert
from effsparse_cli.paths.views import arrange


class RealWeights:
    """Every kept connection weighs 1: the path norm counts paths."""

    def __init__(self, layers: Mapping[str, Layer], arrays: RealArrays) -> None:
        self._layers = layers
        self._arrays = arrays
        self._matrices: dict[Weight, Tensor] = {}

    def contract(self, x: Scaled, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Scaled:
        columns = self._columns(x.data, op)
        y = torch.einsum("bgjo,gnj->bgno", columns, self._matrix(weight, shape, op.groups))
        out = tuple(t.shape[1] for t in op.windows)
        return self._arrays.settle(y.reshape(*_batch(x_shape, op), shape[0], *out), x.exponent)

    def contract_back(
        self, y: Scaled, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Scaled:
        w = self._matrix(weight, shape, op.groups)
        flat = y.data.reshape(math.prod(_batch(y_shape, op)), op.groups, w.shape[1], -1)
        columns = torch.einsum("bgno,gnj->bgjo", flat, w)
        taps, out = [t.shape[0] for t in op.windows], [t.shape[1] for t in op.windows]
        data = columns.reshape(columns.shape[0], op.groups * shape[1], *taps, *out)
        for i, table in enumerate(op.windows):
            size = x_shape[len(x_shape) - len(op.windows) + i]
            data = self._fold(data, 2 + len(op.windows), invert(table, size))
        return self._arrays.settle(data.reshape(x_shape), y.exponent)

    def _fold(self, data: Tensor, axis: int, inverse: Taps) -> Tensor:
        """Sums the taps on axis 2 back to the input positions that they read along `axis`."""
        moved = data.movedim(2, -1).movedim(axis - 1, -2)  # [..., out, taps]
        n = moved.shape[-1]
        flat = np.where(inverse >= 0, inverse * n + np.arange(n)[:, None], -1)
        return self._arrays.windows(moved.flatten(-2), moved.ndim - 2, flat).sum(dim=-2).movedim(-1, axis - 1)

    def meet(
        self, x: Flow[Scaled], y: Scaled, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Use:
        w = self._matrix(weight, shape, op.groups)
        reached = (y.data > 0).reshape(math.prod(_batch(shapes[1], op)), op.groups, w.shape[1], -1)
        active = _words(self._joined(x.live, reached, op) & (w > 0))
        carrier = active if x.nonzero is x.live else _words(self._joined(x.nonzero, reached, op) & (w > 0))
        channels = (x.live.data > 0).movedim(-len(op.windows) - 1, -1).reshape(-1, op.groups, shape[1]).any(dim=0)
        source = channels.repeat_interleave(math.prod(shape[2:]), dim=-1)[:, None]
        target = fill(reached.any(dim=3).any(dim=0).cpu().numpy())[..., None]
        return Use(weight, shape, _words(w > 0), active, _words(source), target, carrier)

    def _joined(self, x: Scaled, reached: Tensor, op: Contract) -> Tensor:
        """[groups, rows, channels * taps]: is there a position where the one feeds the other?"""
        columns = (self._columns(x.data, op) > 0).to(self._arrays.dtype)
        return torch.einsum("bgjo,bgno->gnj", columns, reached.to(self._arrays.dtype)) > 0

    def meet_everywhere(self, x: Flow[Scaled], y: Scaled, weight: Weight, shape: Shape) -> Use:
        kept = _words(self._matrix(weight, shape, 1) > 0)
        source, target = (fill((a.data > 0).reshape(1, 1, 1).cpu().numpy()) for a in (x.live, y))
        return Use(weight, shape, kept, kept & source & target, source, target, kept & target)

    def merge(self, a: Use, b: Use) -> Use:
        return a.merge(b)

    def _matrix(self, weight: Weight, shape: Shape, groups: int) -> Tensor:
        """[groups, rows, channels * taps] of zeros and ones."""
        if weight not in self._matrices:
            kept = arrange(self._layers[weight.layer].kept(), weight.view, shape, zero=False)
            matrix = torch.tensor(kept.reshape(groups, shape[0] // groups, -1))
            self._matrices[weight] = matrix.to(self._arrays.device, self._arrays.dtype)
        return self._matrices[weight]

    def _columns(self, data: Tensor, op: Contract) -> Tensor:
        """[*batch, channels, *spatial] to [batch, groups, channels * taps, out]: im2col from the tables."""
        rank = len(op.windows)
        split = data.ndim - rank - 1
        batch = math.prod(data.shape[:split])
        result = data.reshape(batch, data.shape[split], *data.shape[split + 1 :])
        for i, table in enumerate(op.windows):
            axis = 2 + 2 * i  # an axis that was read has become two: taps, positions
            result = self._arrays.windows(result, axis, table)
        order = [0, 1, *(2 + 2 * i for i in range(rank)), *(3 + 2 * i for i in range(rank))]
        return result.permute(order).reshape(batch, op.groups, -1, math.prod(t.shape[1] for t in op.windows))


def _batch(shape: Shape, op: Contract) -> Shape:
    return shape[: len(shape) - len(op.windows) - 1]


def _words(truth: Tensor) -> Words:
    return pack(truth.cpu().numpy())
