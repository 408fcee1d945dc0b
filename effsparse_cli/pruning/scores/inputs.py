"""The input of all score functions. A score takes a ScoreInput and returns one array per layer.

All arrays are in the canonical layout of their layer (rows are outputs), whatever layout the file stores: ties are
broken by position, and a seed must draw the same scores for every format of one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.layouts import Layout
from effsparse_cli.pruning.plan import Gradients

Scores = NDArray[np.floating[Any]]
LayerScores = dict[str, Scores]


@dataclass(frozen=True, kw_only=True)
class ScoreInput:
    """The model and the settings that a score may use.

    `layers` names the layers to score. `kept` has the masks to start from, in the stored shape, for layers that have
    one. `density` is the density of the target; `rounds` is the number of pruning rounds. `gradients` is set for
    methods that need data.
    """

    graph: Graph
    layers: tuple[str, ...]
    layouts: Mapping[str, Layout]
    kept: Mapping[str, Bools]
    density: float = 1.0
    rounds: int = 0
    seed: int = 0
    device: str = "cpu"
    gradients: Gradients | None = None

    def values(self, name: str) -> NDArray[Any]:
        """Return the stored weights of a layer, before any mask."""
        return self.layouts[name].read(read_values(self.graph.layers[name]))

    def initial_masks(self) -> dict[str, Bools]:
        """Return the connections that can be kept: nonzero, and not pruned by a mask to start from."""
        nonzero = {name: self.values(name) != 0 for name in self.layers}
        held = {name: self.layouts[name].read(mask) for name, mask in self.kept.items()}
        return {name: mask & held[name] if name in held else mask for name, mask in nonzero.items()}

    def loss_gradients(self, masks: Mapping[str, Bools]) -> dict[str, NDArray[np.floating[Any]]]:
        """Return the gradient of the loss by every weight, removed ones included, with `masks` applied. None is NaN."""
        assert self.gradients is not None
        return check_numbers(self.to_canonical(self.gradients.of_loss(self.to_stored(masks))))

    def flow_gradients(self, masks: Mapping[str, Bools]) -> dict[str, NDArray[np.floating[Any]]]:
        """Return the Hessian-gradient product Hg, with `masks` applied. None is NaN."""
        assert self.gradients is not None
        return check_numbers(self.to_canonical(self.gradients.of_flow(self.to_stored(masks))))

    def to_canonical(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: self.layouts[name].read(arrays[name]) for name in self.layers}

    def to_stored(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: self.layouts[name].write(array) for name, array in arrays.items()}


def check_numbers(arrays: dict[str, Scores]) -> dict[str, Scores]:
    """Refuse NaN in gradients, or in scores computed from them: it has no rank."""
    for name, array in arrays.items():
        if np.isnan(array).any():
            raise UsageError(f"{name}: the gradients are NaN. Check the data, the loss and the weights")
    return arrays


def read_values(layer: Layer) -> NDArray[Any]:
    """Read the stored weights of a layer, before any mask, in its stored shape."""
    if layer.values is None:
        raise UsageError(f"{layer.name}: cannot read weight values from this file. Use --method random")
    return np.asarray(layer.values()).reshape(layer.shape)
