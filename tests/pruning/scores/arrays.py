"""Scores of bare arrays: each becomes a layer of a graph without nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.paths.layouts import Layout
from effsparse_cli.pruning import SCORES
from effsparse_cli.pruning.scores.inputs import ScoreInput, Scores


def score_arrays(method: str, *arrays: NDArray[Any], seed: int = 0) -> list[Scores]:
    layers = {f"layer{i}": array for i, array in enumerate(arrays)}
    graph = Graph((), (), {name: _make_layer(name, array) for name, array in layers.items()})
    layouts = {name: Layout(array.shape, array.shape) for name, array in layers.items()}
    inputs = ScoreInput(graph=graph, layers=tuple(layers), layouts=layouts, kept={}, seed=seed)
    return list(SCORES[method].compute(inputs).values())


def _make_layer(name: str, array: NDArray[Any]) -> Layer:
    return Layer(name, "linear", array.shape, lambda: np.ones(array.shape, bool), values=lambda: array)
