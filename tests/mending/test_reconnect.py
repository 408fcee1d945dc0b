"""Reconnecting restores collapsed layers with no more connections than an exhaustive search finds."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import nn

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.errors import UsageError
from effsparse_cli.formats import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph
from effsparse_cli.mending.reconnect import reconnect
from effsparse_cli.mending.result import FILE, NONE, MendResult
from effsparse_cli.paths import find_paths
from effsparse_cli.pruning.plan import PrunePlan
from tests.folding.nets import chains, layer, with_values
from tests.torchvision_models import models as torchvision_models

PLAN = PrunePlan(target=Fraction(0))
MAX_SUBSETS = 200
"""Limit of an exhaustive search."""


def collapsed(graph: Graph) -> set[str]:
    return {name for name, edges in find_paths(graph).items() if not edges.count("active")}


def emptied(graph: Graph, *names: str) -> Graph:
    return graph.with_masks({name: np.zeros(graph.layers[name].shape, bool) for name in names})


def pruned(graph: Graph) -> list[tuple[str, int]]:
    return [(name, int(i)) for name, found in graph.layers.items() for i in np.flatnonzero(~found.kept())]


def fewer_suffice(graph: Graph, number: int) -> bool:
    """Return whether reviving fewer connections can restore all layers."""
    for size in range(number):
        for chosen in combinations(pruned(graph), size):
            masks = {name: found.kept().copy() for name, found in graph.layers.items()}
            for name, place in chosen:
                masks[name].flat[place] = True
            if not collapsed(graph.with_masks(masks)):
                return True
    return False


def restore(graph: Graph) -> MendResult:
    """Reconnect a graph in which all layers can be restored."""
    assume(not collapsed(graph.with_masks({name: np.ones(found.shape, bool) for name, found in graph.layers.items()})))
    result = reconnect(graph, PLAN)
    assert not collapsed(graph.with_masks(result.masks))
    assert result.left == ()
    for name, found in graph.layers.items():
        assert (result.masks[name] == (found.kept() | result.revived[name])).all()
    return result


def is_searchable(graph: Graph, number: int) -> bool:
    return sum(comb(len(pruned(graph)), size) for size in range(number)) <= MAX_SUBSETS


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), derandomize=True)
@given(chains())
def test_chains_get_the_fewest_connections(graph: Graph) -> None:
    result = restore(graph)
    assume(is_searchable(graph, result.added))
    assert not fewer_suffice(graph, result.added)
    assert reconnect(with_values(graph, 0), PLAN).added == result.added


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), derandomize=True)
@given(chains(shortcuts=True, densities=(0.3, 0.5)), st.data())
def test_one_collapsed_layer_gets_the_fewest_connections(graph: Graph, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(graph.layers)))
    graph = emptied(graph, name)
    assume(collapsed(graph) == {name})
    result = restore(graph)
    assume(is_searchable(graph, result.added))
    assert not fewer_suffice(graph, result.added)


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.integers(0, 10_000))
def test_an_empty_depthwise_layer_gets_the_fewest_connections(seed: int) -> None:
    """Both sides are alive, but rarely in the same channel, so rows before it or columns after it must be added too."""
    rng = np.random.default_rng(seed)
    b = Builder()
    x = b.source("x", (1, 3))
    before = b.contract(x, b.weight(layer("before", rng.random((3, 3)) < 0.15)))
    around = b.contract(x, b.weight(layer("around", np.ones((3, 3), bool))))
    apart = b.contract(before, b.weight(layer("apart", np.zeros((3, 1), bool))), groups=3)
    closed = b.constant(rng.random((1, 3)) < 0.5)
    behind = b.contract(b.join(apart, b.times(around, closed)), b.weight(layer("behind", rng.random((3, 3)) < 0.15)))
    graph = b.finish([before, around, behind])
    assume(collapsed(graph) == {"apart"})
    result = restore(graph)
    assert not fewer_suffice(graph, result.added)


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), derandomize=True)
@given(chains(shortcuts=True))
def test_every_possible_layer_is_restored(graph: Graph) -> None:
    restore(graph)


def test_paths_are_found_at_the_level_of_positions() -> None:
    """Two taps that shift in the same direction leave a map of two positions, which channels alone do not show."""
    b = Builder()
    x = b.source("x", (1, 1, 2))
    table = np.array([[-1, 0], [0, 1], [1, -1]])
    for i in range(3):
        kept = np.array([[[True, False, False]]])
        x = b.contract(x, b.weight(layer(f"conv{i}", kept)), [table])
    graph = b.finish([x])
    assert collapsed(graph) == {"conv0", "conv1", "conv2"}
    result = reconnect(graph, PLAN)
    assert result.added == 1
    assert not collapsed(graph.with_masks(result.masks))


def test_both_factors_of_a_gate_are_restored() -> None:
    b = Builder()
    x = b.source("x", (1, 2))
    gate, up = (b.contract(x, b.weight(layer(name, np.zeros((2, 2), bool)))) for name in ("gate", "up"))
    y = b.contract(b.times(gate, up), b.weight(layer("down", np.zeros((2, 2), bool))))
    graph = b.finish([b.join(x, y)])
    result = reconnect(graph, PLAN)
    assert result.left == ()
    assert result.added == 3
    assert analyze_graph(graph.with_masks(result.masks)).totals.active == 3


def test_the_best_scored_shortest_path_is_chosen() -> None:
    b = Builder()
    y = b.source("x", (1, 3))
    sizes = [np.array([[0.1, 0.9, 0.2]]), np.array([[0.5], [0.4]])]
    for name, values in zip(("first", "second"), sizes, strict=True):
        y = b.contract(y, b.weight(layer(name, np.zeros(values.shape, bool), values)))
    result = reconnect(b.finish([y]), PLAN)
    assert {name: mask.tolist() for name, mask in result.revived.items()} == {
        "first": [[False, True, False]],
        "second": [[True], [False]],
    }
    assert (result.values, result.valueless) == (FILE, 0)


def test_layers_that_cannot_be_restored_are_named() -> None:
    b = Builder()
    x = b.source("x", (1, 2))
    dead = b.times(b.contract(x, b.weight(layer("cut", np.ones((2, 2), bool)))), b.constant(np.zeros((1, 2), bool)))
    open_ = b.contract(x, b.weight(layer("open", np.zeros((2, 2), bool))))
    result = reconnect(b.finish([b.join(dead, open_)]), PLAN)
    assert (result.left, result.added, result.values, result.valueless) == (("cut",), 1, NONE, 1)
    with pytest.raises(UsageError, match="no path from an input to an output"):
        reconnect(b.finish([dead]), PLAN)


def test_a_connected_network_is_not_changed() -> None:
    graph = small_vgg()
    assert reconnect(graph, PLAN).added == 0


@cache
def small_vgg() -> Graph:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    inputs = 3
    for width in (8, "pool", 16, "pool", 32, 32, "pool", 64, 64, "pool", 64, 64):
        if isinstance(width, str):
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(inputs, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        inputs = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10)).eval()
    return from_module(model, (torch.zeros(1, 3, 32, 32),), None, LoadOptions())


@pytest.mark.parametrize("density", [0.0, 0.001, 0.004])
def test_a_collapsed_vgg_is_connected(density: float) -> None:
    rng = np.random.default_rng(0)
    graph = small_vgg()
    graph = graph.with_masks({name: rng.random(found.shape) < density for name, found in graph.layers.items()})
    assert analyze_graph(graph).disconnected
    result = reconnect(graph, PLAN)
    assert not collapsed(graph.with_masks(result.masks))
    # One path needs at most one connection per layer, and exactly one if nothing is kept.
    assert result.added == len(graph.layers) if density == 0 else 0 < result.added < len(graph.layers)
    assert result.values == FILE


def test_one_empty_layer_needs_one_connection() -> None:
    graph = small_vgg()
    for name in list(graph.layers)[:3]:
        assert reconnect(emptied(graph, name), PLAN).added == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vgg11_bn", "resnet18", "mobilenet_v2"])
def test_torchvision(name: str) -> None:
    torch.manual_seed(0)
    model = getattr(torchvision_models(), name)(num_classes=10).eval()
    graph = from_module(model, (torch.zeros(1, 3, 64, 64),), None, LoadOptions())
    rng = np.random.default_rng(0)
    graph = graph.with_masks({name: rng.random(found.shape) < 1e-4 for name, found in graph.layers.items()})
    assert analyze_graph(graph).disconnected
    result = reconnect(graph, PLAN)
    assert result.left == ()
    assert not collapsed(graph.with_masks(result.masks))
