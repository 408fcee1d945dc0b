"""Weights of the real semiring in torch, and the results of a pass for their connections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from effsparse_cli.graph.primitives import Contract, Shape, Weight
from effsparse_cli.kernel.bits import Words, fill, pack
from effsparse_cli.paths import devices
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.edges import Ends, WeightUse, build_ends
from effsparse_cli.paths.real.arrays import RealArrays, Scaled
from effsparse_cli.paths.real.convolutions import TabledConvolution, TorchConvolution, choose_convolution
from effsparse_cli.paths.views import arrange


class RealWeights:
    """`stored` returns the strengths of a layer, none negative, in its shape. Zeros and ones count paths."""

    def __init__(self, stored: Callable[[str], NDArray[Any]], arrays: RealArrays) -> None:
        self._stored = stored
        self._arrays = arrays
        self._weights: dict[Weight, Tensor] = {}
        self._convolutions: dict[Contract, TorchConvolution | TabledConvolution] = {}

    def contract(self, x: Scaled, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Scaled:
        data, batch = one_batch(x.data, op)
        y = self.convolution(op, data).forward(data, self.strength(weight, shape))
        return self._arrays.settle(y.reshape(*batch, *y.shape[1:]), x.exponent)

    def contract_back(
        self, y: Scaled, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Scaled:
        data, _ = one_batch(y.data, op)
        flat_shape = (len(data), *x_shape[len(x_shape) - len(op.windows) - 1 :])
        way = self.convolution(op, torch.empty(flat_shape, device="meta"))
        return self._arrays.settle(
            way.to_input(data, self.strength(weight, shape), flat_shape).reshape(x_shape), y.exponent
        )

    def meet(
        self, x: Flow[Scaled], y: Scaled, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> WeightUse:
        kept = self.strength(weight, shape) > 0
        live, (reached, _) = self._arrays.support(x.live), one_batch(self._arrays.support(y).data, op)
        active = kept & self._joined(live, reached, op, weight, shape)
        carrier = active
        if x.nonzero is not x.live:
            carrier = kept & self._joined(self._arrays.support(x.nonzero), reached, op, weight, shape)
        sources = _anywhere(one_batch(live.data, op)[0]).reshape(op.groups, 1, shape[1], 1)
        targets = _anywhere(reached).reshape(op.groups, -1, 1)
        source = sources.expand(-1, -1, -1, math.prod(shape[2:])).reshape(op.groups, 1, -1)
        words = [_words(a.reshape(op.groups, shape[0] // op.groups, -1)) for a in (kept, active, carrier)]
        ended = fill(devices.fetch(targets))
        joined = build_ends(words[0], words[1], _words(source), ended)
        return WeightUse(weight, shape, lambda: words[0], joined, build_ends(words[0], words[2], None, ended))

    def _joined(self, x: Scaled, reached: Tensor, op: Contract, weight: Weight, shape: Shape) -> Tensor:
        """Whether a source feeds a target at any position."""
        data, _ = one_batch(x.data, op)
        return self.convolution(op, data).to_weight(data, reached, self.strength(weight, shape)) > 0.5

    def meet_everywhere(self, x: Flow[Scaled], y: Scaled, weight: Weight, shape: Shape) -> WeightUse:
        kept = _words(self.strength(weight, shape).reshape(1, shape[0], -1) > 0)
        source, target = (fill(devices.fetch((a.data > 0).reshape(1, 1, 1))) for a in (x.live, y))
        return WeightUse(weight, shape, lambda: kept, Ends(source, target), Ends(None, target))

    def merge(self, a: WeightUse, b: WeightUse) -> WeightUse:
        return a.merge(b)

    def convolution(self, op: Contract, data: Tensor) -> TorchConvolution | TabledConvolution:
        if op not in self._convolutions:
            self._convolutions[op] = choose_convolution(op, tuple(data.shape[2:]), self._arrays.exact_convolutions)
        return self._convolutions[op]

    def strength(self, weight: Weight, shape: Shape) -> Tensor:
        """Return the strengths in the operator's shape."""
        if weight not in self._weights:
            stored = arrange(self._stored(weight.layer), weight.view, shape, zero=0)
            self._weights[weight] = devices.send(stored, self._arrays.device, self._arrays.dtype)
        return self._weights[weight]


def one_batch(data: Tensor, op: Contract) -> tuple[Tensor, Shape]:
    """Return [*batch, channels, *spatial] with a single batch axis, and the batch sizes."""
    split = data.ndim - len(op.windows) - 1
    batch = tuple(data.shape[:split])
    return data.reshape(math.prod(batch), *data.shape[split:]), batch


def _anywhere(data: Tensor) -> Tensor:
    """Whether each channel is not zero at any position."""
    return (data > 0).movedim(1, 0).flatten(1).any(dim=1)


def _words(truth: Tensor) -> Words:
    return pack(devices.fetch(truth))
