"""Weights of the bottleneck semiring (max, min): for each connection the threshold at which it becomes inactive.

The bottleneck of a connection is the maximum, over all paths through it, of the minimum score on the path, so at
threshold t exactly the connections with bottleneck >= t are active. Works on whole channels: where single positions
differ (padding, strides) it may be too high, never too low.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.graph import Graph, MixedWeight
from effsparse_cli.graph.primitives import Contract, Shape, Weight
from effsparse_cli.paths.algebra import Flow
from effsparse_cli.paths.lattice import BOTTLENECK, Array
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
    pass_ = Pass(BOTTLENECK, ScoreWeights({}), making)
    for name, y in zip(making.input_shapes, pass_.backward(making, pass_.values, [mixed]), strict=True):
        found[name] = np.maximum(found[name], np.minimum(scores[name], np.broadcast_to(y, scores[name].shape)))


def _find_uses(graph: Graph, scores: Mapping[str, Scores], device: str) -> dict[Weight, Scores]:
    if device == "cpu":
        return Pass(BOTTLENECK, ScoreWeights(scores), graph).uses
    from effsparse_cli.paths.bottleneck.torch_scores import find_uses

    return find_uses(graph, scores, device)


class ScoreWeights:
    def __init__(self, scores: Mapping[str, Scores]) -> None:
        self._scores = scores
        self._best: dict[Contract, Scores] = {}

    def contract(self, x: Array, x_shape: Shape, op: Contract, weight: Weight, shape: Shape) -> Array:
        levels = _channels(x, op, shape)
        y: Scores = np.minimum(self._per_channel(op, weight, shape), levels[:, None]).max(axis=-1, initial=-np.inf)
        return y.reshape((1,) * (x.ndim - len(op.windows) - 1) + (-1,) + (1,) * len(op.windows))

    def contract_back(
        self, y: Array, y_shape: Shape, op: Contract, weight: Weight, shape: Shape, x_shape: Shape
    ) -> Array:
        levels = _rows(y, op, shape)
        x: Scores = np.minimum(self._per_channel(op, weight, shape), levels[..., None]).max(axis=1, initial=-np.inf)
        return x.reshape((1,) * (y.ndim - len(op.windows) - 1) + (-1,) + (1,) * len(op.windows))

    def meet(
        self, x: Flow[Array], y: Array, shapes: tuple[Shape, Shape], op: Contract, weight: Weight, shape: Shape
    ) -> Scores:
        ends = np.minimum(_channels(x.live, op, shape)[:, None], _rows(y, op, shape)[..., None])
        scores = self._arranged(weight, shape).reshape(*ends.shape, math.prod(shape[2:]))
        found = np.minimum(scores, ends[..., None])
        _, ever = reach(op.windows)
        if not ever.all():
            found[..., ~ever] = -np.inf
        return found

    def meet_everywhere(self, x: Flow[Array], y: Array, weight: Weight, shape: Shape) -> Scores:
        return np.minimum(self._arranged(weight, shape), np.minimum(x.live, y).reshape(()))

    def merge(self, a: Scores, b: Scores) -> Scores:
        return np.maximum(a, b)

    def _arranged(self, weight: Weight, shape: Shape) -> Scores:
        return arrange(self._scores[weight.layer], weight.view, shape, zero=-np.inf)

    def _per_channel(self, op: Contract, weight: Weight, shape: Shape) -> Scores:
        """[groups, rows, channels]: the best tap that reads anything at all."""
        if op not in self._best:
            _, ever = reach(op.windows)
            taps = self._arranged(weight, shape).reshape(
                op.groups, shape[0] // op.groups, shape[1], math.prod(shape[2:])
            )
            usable = taps if ever.all() else taps[..., ever]
            best = usable[..., 0] if usable.shape[-1] == 1 else usable.max(axis=-1, initial=-np.inf)
            self._best[op] = best
        return self._best[op]


def _channels(x: Array, op: Contract, shape: Shape) -> Scores:
    """[groups, channels]: the best position of each source channel."""
    return _per_axis(x, op, op.groups * shape[1]).reshape(op.groups, shape[1])


def _rows(y: Array, op: Contract, shape: Shape) -> Scores:
    """[groups, rows]: the best position of each target channel."""
    return _per_axis(y, op, shape[0]).reshape(op.groups, shape[0] // op.groups)


def _per_axis(a: Array, op: Contract, n: int) -> Scores:
    axis = a.ndim - len(op.windows) - 1
    levels = a.max(axis=tuple(i for i in range(a.ndim) if i != axis), initial=-np.inf)
    return np.broadcast_to(levels, n)
