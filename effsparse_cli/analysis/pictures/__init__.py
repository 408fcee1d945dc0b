"""Pictures of layers: what becomes of the connections under each cell of a weight, and where a feature map is alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from effsparse_cli.analysis.pictures.draw import draw_layer, find_groups
from effsparse_cli.analysis.pictures.picture import Picture
from effsparse_cli.analysis.pictures.positions import find_positions
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths import run_pass
from effsparse_cli.paths.edges import Edges, WeightUse
from effsparse_cli.paths.layouts import find_layouts
from effsparse_cli.paths.passes import Pass


def draw_layers(graph: Graph, edges: Mapping[str, Edges], done: Pass[Any, WeightUse] | None) -> dict[str, Picture]:
    """Draw every layer. `done` is the boolean pass; without it, one more pass finds the positions."""
    positions = find_positions(graph, done or run_pass(graph, watch=True))
    layouts = find_layouts(graph)
    groups = find_groups(graph, layouts)
    return {name: draw_layer(found, layouts[name], groups[name], positions.get(name)) for name, found in edges.items()}
