"""Pictures of two models: every connection that either keeps is in the cell and the kind that its masks say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import effsparse
from effsparse_cli.comparison.compare import compare
from effsparse_cli.comparison.results import SHOWN
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths import find_paths
from effsparse_cli.paths.layouts import find_layouts
from effsparse_cli.report.html.view import encode_pictures
from tests.analysis.networks import MODULES, graph_of, module_graph, prune
from tests.analysis.pictures.test_draw import by_hand

KINDS = {
    # active before, kept before, active after, kept after; None matches either
    "same": (True, True, True, True),
    "gained": (False, False, None, True),
    "revived": (False, True, True, True),
    "lost": (None, True, False, False),
    "newly_dead": (True, True, False, True),
    "inactive": (False, True, False, True),
}


@pytest.mark.parametrize("densities", [(0.5, 0.5), (0.3, 0.9), (1.0, 0.3), (0.4, 0.4)])
@pytest.mark.parametrize("name", MODULES)
def test_connections_are_where_their_masks_say(name: str, densities: tuple[float, float]) -> None:
    graphs = [module_graph(name, density, seed) for seed, density in enumerate(densities)]
    done = compare("a", graphs[0], "b", graphs[1], count_embeddings=True, pictures=True)
    edges, layouts = [find_paths(graph) for graph in graphs], find_layouts(graphs[0])
    assert list(done.pictures) == [pair.before.name for pair in done.pairs]
    for layer, picture in done.pictures.items():
        frame, layout = picture.frame, layouts[layer]
        masks = [found[layer].mask(kind) for found in edges for kind in ("active", "kept")]
        shape = frame.outputs, frame.inputs, *frame.kernel
        states = np.stack([(layout.read(mask) if layout.rows else mask).reshape(shape) for mask in masks], axis=-1)
        expected = {kind: match(states, state) for kind, state in KINDS.items()}
        assert (np.sum(list(expected.values()), axis=0) == states.any(axis=-1)).all(), "every connection has one kind"
        for kind, connections in expected.items():
            assert (kind in picture.counts) == connections.any()
            counts = picture.counts.get(kind, np.zeros(frame.grid, np.uint8))
            assert {tuple(at): int(counts[tuple(at)]) for at in np.argwhere(counts).tolist()} == by_hand(
                frame, connections
            )
        moves = next(pair.moves for pair in done.pairs if pair.before.name == layer)
        assert all(getattr(moves, kind) == expected[kind].sum() for kind in SHOWN)
        assert picture.fan_in.active.sum() == frame.outputs
        assert picture.dead_rows.sum() == (~states[..., 2].any(axis=(1, 2, 3))).sum()


def match(states: Bools, wanted: tuple[bool | None, ...]) -> Bools:
    """Return where the last axis of `states` is as wanted."""
    found: Bools = np.all([states[..., i] == state for i, state in enumerate(wanted) if state is not None], axis=0)
    return found


def test_layers_with_other_shapes_have_no_picture() -> None:
    first, second = (nn.Sequential(nn.Linear(4, n), nn.Linear(n, 3), nn.Linear(3, 2)) for n in (5, 6))
    difference = effsparse.diff(first, second, torch.zeros(1, 4), pictures=True)
    assert [pair.name for pair in difference.pairs] == ["0", "1", "2"]
    assert list(difference.pictures) == ["2"]
    (shown,) = encode_pictures(difference.pictures).values()
    assert shown["kinds"] == ["same"]
    assert not effsparse.diff(first, second, torch.zeros(1, 4)).pictures


def test_pictures_have_the_name_before() -> None:
    first = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    second = nn.ModuleDict({"module": prune(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)), 0.5)})

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = second["module"]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.module(x)
            return y

    graphs = [graph_of(model, torch.zeros(1, 4)) for model in (first, Wrapped())]
    done = compare("a", graphs[0], "b", graphs[1], count_embeddings=False, pictures=True)
    assert list(done.pictures) == ["0", "1"]
    assert [pair.after.name for pair in done.pairs] == ["module.0", "module.1"]
