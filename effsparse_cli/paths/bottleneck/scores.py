"""Weights of the bottleneck semiring (max, min) in numpy or torch: the score at which a connection becomes inactive.

The bottleneck of a connection is the maximum, over all paths through it, of the minimum score on the path, so at
threshold t exactly the connections with bottleneck >= t are active. Works on whole channels: where single positions
differ (padding, strides) it may be too high, never too low.
"""
# mypy: disable-error-code=no-any-return

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.graph import Graph, MixedWeight
from effsparse_cli.graph.primitives import Contract, Shape, Weight
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.lattice import BOTTLENECK, A, Lattice
from effsparse_cli.paths.passes import Pass
from effsparse_cli.paths.taps import reach
from effsparse_cli.paths.views import arrange, collect

Scores = NDArray[Any]


def find_bottlenecks(graph: Graph, scores: Mapping[str, Scores], device: str = "cpu") -> dict[str, Scores]:
    """Return one array per layer, in its shape. A pruned connection has score -inf, and one without a path bottleneck
    -inf. Any device other than the CPU runs in torch."""
    uses = _find_uses(graph, scores, device)
    found: dict[str, Scores] = {}
    shapes = graph.weight_shapes
    for weight, values in uses.items():
        name, dtype = weight.layer, scores[weight.layer].dtype
        if name not in found and weight.view.strides is None and weight.view.index is None:
            found[name] = values.reshape(-1).astype(dtype, copy=False)
            continue
        if name not in found:
            found[name] = np.full(scores[name].size, -np.inf, dtype)
        collect(values, weight.view, shapes[weight], found[name], np.maximum)
    unused = {name: np.full(array.size, -np.inf, array.dtype) for name, array in scores.items() if name not in found}
    result = {name: (found | unused)[name].reshape(array.shape) for name, array in scores.items()}
    for name, mixed_weight in graph.mixed_weights.items():
        _pull_back(mixed_weight, result.pop(name), scores, result)
    return result


def _pull_back(
    mixed_weight: MixedWeight, mixed: Scores, scores: Mapping[str, Scores], found: dict[str, Scores]
) -> None:
    """A stored weight that is mixed before use is active as long as any element computed from it is."""
    making = mixed_weight.graph
    pass_ = Pass(BOTTLENECK, ScoreWeights({}, BOTTLENECK), making)
    for name, y in zip(making.input_shapes, pass_.backward(making, pass_.values, [mixed]), strict=True):
        found[name] = np.maximum(found[name], np.minimum(scores[name], np.broadcast_to(y, scores[name].shape)))


def _find_uses(graph: Graph, scores: Mapping[str, Scores], device: str) -> dict[Weight, Scores]:
    arrays: Lattice[Any] = BOTTLENECK
    if device != "cpu":
        import torch

        from effsparse_cli.paths.bottleneck.torch_arrays import TorchOperations

        width = np.result_type(*(array.dtype for array in scores.values())) if scores else np.float64
        arrays = Lattice(TorchOperations(device, torch.float64 if width == np.float64 else torch.float32))
    uses = Pass(arrays, ScoreWeights(scores, arrays), graph).uses
    return {weight: arrays.do.fetch(found) for weight, found in uses.items()}


class ScoreWeights(Generic[A]):
    def __init__(self, scores: Mapping[str, Scores], arrays: Lattice[A]) -> None:
        self._scores = scores
        self._arrays, self._do = arrays, arrays.do
        self._used: dict[Weight, A] = {}
        self._best: dict[Contract, A] = {}

    def contract(self, x: A, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> A:
        y = self._do.times(self._per_channel(op, weight, shape), self._sources(x, op, shape))
        return _in_place(self._do.sum(y, (2,)), x.ndim, op)

    def contract_back(self, y: A, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape) -> A:
        x = self._do.times(self._per_channel(op, weight, shape), self._targets(y, op, shape))
        return _in_place(self._do.sum(x, (1,)), y.ndim, op)

    def meet(self, x: Flow[A], y: A, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape) -> A:
        ends = self._do.times(self._sources(x.live, op, shape), self._targets(y, op, shape))
        scores = self._arranged(weight, shape).reshape(*ends.shape, math.prod(shape[2:]))
        return self._arrays.where(self._do.times(scores, ends.reshape(*ends.shape, 1)), reach(op.windows)[1], 3)

    def meet_everywhere(self, x: Flow[A], y: A, weight: Weight, shape: Shape) -> A:
        return self._do.times(self._arranged(weight, shape), self._do.times(x.live, y).reshape(()))

    def merge(self, a: A, b: A) -> A:
        return self._do.plus(a, b)

    def _arranged(self, weight: Weight, shape: Shape) -> A:
        if weight not in self._used:
            scores = arrange(self._scores[weight.layer], weight.view, shape, zero=-np.inf)
            self._used[weight] = self._do.send(scores)
        return self._used[weight]

    def _per_channel(self, op: Contract, weight: Weight, shape: Shape) -> A:
        """[groups, rows, channels]: the best tap that reads anything at all."""
        if op not in self._best:
            taps = math.prod(shape[2:])
            scores = self._arranged(weight, shape).reshape(op.groups, shape[0] // op.groups, shape[1], taps)
            usable = self._arrays.where(scores, reach(op.windows)[1], 3)
            self._best[op] = usable.reshape(usable.shape[:3]) if taps == 1 else self._do.sum(usable, (3,))
        return self._best[op]

    def _sources(self, x: A, op: Contract, shape: Shape) -> A:
        """[groups, 1, channels]: the best position of each source channel."""
        return self._levels(x, op, op.groups * shape[1]).reshape(op.groups, 1, shape[1])

    def _targets(self, y: A, op: Contract, shape: Shape) -> A:
        """[groups, rows, 1]: the best position of each target channel."""
        return self._levels(y, op, shape[0]).reshape(op.groups, shape[0] // op.groups, 1)

    def _levels(self, a: A, op: Contract, n: int) -> A:
        axis = a.ndim - len(op.windows) - 1
        return self._do.broadcast(self._do.sum(a, tuple(i for i in range(a.ndim) if i != axis)), (n,))


def _in_place(levels: A, rank: int, op: Contract) -> A:
    """Return one level per channel, uniform along all other axes."""
    return levels.reshape((1,) * (rank - len(op.windows) - 1) + (-1,) + (1,) * len(op.windows))
