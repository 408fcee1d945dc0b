"""What scores that look at the graph are given, and the numbers that a layer stores."""

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


@dataclass(frozen=True)
class ScoreInput:
    """`layers` take part; `kept` has the masks to start from, for those that have one. `density` is that of
    the target, `rounds` 0 the method's own number of them. Scores leave in the canonical layouts, where
    position decides between equals."""

    graph: Graph
    layers: tuple[str, ...]
    layouts: Mapping[str, Layout]
    kept: Mapping[str, Bools]
    density: float
    rounds: int = 0
    device: str = "cpu"
    gradients: Gradients | None = None

    def start(self) -> dict[str, Bools]:
        """What can be kept: what is not zero, and not pruned where masks hold."""
        found = {name: values_of(self.graph.layers[name]) != 0 for name in self.layers}
        return self.read({name: mask & self.kept[name] if name in self.kept else mask for name, mask in found.items()})

    def read(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Of the layers that take part, from stored to canonical."""
        return {name: self.layouts[name].read(arrays[name]) for name in self.layers}

    def write(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: self.layouts[name].write(array) for name, array in arrays.items()}


def values_of(layer: Layer) -> NDArray[Any]:
    """The stored numbers, before any mask, in the layer's shape."""
    if layer.values is None:
        raise UsageError(
            f"the values of {layer.name} cannot be read from this file, and only --method random needs none of them"
        )
    return np.asarray(layer.values()).reshape(layer.shape)
