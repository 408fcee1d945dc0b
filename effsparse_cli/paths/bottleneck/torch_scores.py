"""Weights of the bottleneck semiring in torch, on any device. Results equal those of scores.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Contract, Shape, Weight
from effsparse_cli.paths import devices
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.bottleneck.torch_arrays import ZERO, TorchBottleneck, best
from effsparse_cli.paths.passes import Pass
from effsparse_cli.paths.taps import reach
from effsparse_cli.paths.views import arrange

Scores = NDArray[Any]


def find_uses(graph: Graph, scores: Mapping[str, Scores], device: str) -> dict[Weight, Scores]:
    """Return the bottlenecks of the connections, for each use of a weight."""
    width = np.result_type(*(array.dtype for array in scores.values())) if scores else np.float64
    arrays = TorchBottleneck(device, torch.float64 if width == np.float64 else torch.float32)
    uses = Pass(arrays, TorchScoreWeights(scores, arrays), graph).uses
    return {weight: devices.fetch(found) for weight, found in uses.items()}


class TorchScoreWeights:
    def __init__(self, scores: Mapping[str, Scores], arrays: TorchBottleneck) -> None:
        self._scores = scores
        self._arrays = arrays
        self._used: dict[Weight, Tensor] = {}
        self._best: dict[Contract, Tensor] = {}

    def contract(self, x: Tensor, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Tensor:
        levels = _per_axis(x, op, op.groups * shape[1]).reshape(op.groups, 1, -1)
        y = best(torch.minimum(self._per_channel(op, weight, shape), levels), (2,))
        return _in_place(y, x.ndim, op)

    def contract_back(
        self, y: Tensor, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Tensor:
        levels = _per_axis(y, op, shape[0]).reshape(op.groups, -1, 1)
        x = best(torch.minimum(self._per_channel(op, weight, shape), levels), (1,))
        return _in_place(x, y.ndim, op)

    def meet(
        self, x: Flow[Tensor], y: Tensor, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Tensor:
        sources = _per_axis(x.live, op, op.groups * shape[1]).reshape(op.groups, 1, -1)
        targets = _per_axis(y, op, shape[0]).reshape(op.groups, -1, 1)
        ends = torch.minimum(sources, targets)
        found = torch.minimum(self._arranged(weight, shape).reshape(*ends.shape, -1), ends.unsqueeze(-1))
        _, ever = reach(op.windows)
        return found if ever.all() else found.masked_fill(devices.send(~ever, found.device), ZERO)

    def meet_everywhere(self, x: Flow[Tensor], y: Tensor, weight: Weight, shape: Shape) -> Tensor:
        return torch.minimum(self._arranged(weight, shape), torch.minimum(x.live, y).reshape(()))

    def merge(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a, b)

    def _arranged(self, weight: Weight, shape: Shape) -> Tensor:
        if weight not in self._used:
            used = arrange(self._scores[weight.layer], weight.view, shape, zero=ZERO)
            self._used[weight] = devices.send(used, self._arrays.device, self._arrays.dtype)
        return self._used[weight]

    def _per_channel(self, op: Contract, weight: Weight, shape: Shape) -> Tensor:
        """[groups, rows, channels]: the best tap that reads anything at all."""
        if op not in self._best:
            _, ever = reach(op.windows)
            taps = self._arranged(weight, shape).reshape(op.groups, shape[0] // op.groups, shape[1], -1)
            usable = taps if ever.all() else taps.index_select(-1, devices.send(np.flatnonzero(ever), taps.device))
            self._best[op] = best(usable, (3,))
        return self._best[op]


def _per_axis(a: Tensor, op: Contract, n: int) -> Tensor:
    """Return the maximum over positions, for each channel."""
    axis = a.ndim - len(op.windows) - 1
    return best(a, [i for i in range(a.ndim) if i != axis]).expand(n)


def _in_place(levels: Tensor, rank: int, op: Contract) -> Tensor:
    """Return one level per channel, uniform along all other axes."""
    return levels.reshape((1,) * (rank - len(op.windows) - 1) + (-1,) + (1,) * len(op.windows))
