"""Pruning to a target on real models: exact, equal to the paper's search, with a note if the target is out of reach."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.errors import UsageError
from effsparse_cli.formats import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.plan import PrunePlan, PruneResult
from effsparse_cli.pruning.ranking import rank
from effsparse_cli.pruning.target import count_active_at
from tests.pruning import models
from tests.torchvision_models import models as torchvision_models

RANKINGS = (("random", "igq"), ("random", "uniform"), ("magnitude", "erk"), ("magnitude", "global"), ("lamp", "global"))
filled = cache(models.filled)
lenet = cache(models.lenet_300_100)


def plan(target: str, method: str = "random", lsq: str = "igq", **more: object) -> PrunePlan:
    return PrunePlan(target=Fraction(target), method=method, lsq=lsq, **more)  # type: ignore[arg-type]


def active_masks(graph: Graph, pruned: PruneResult) -> dict[str, list[int]]:
    found = analyze_graph(graph.with_masks(pruned.masks), masks=True).active_masks
    return {name: np.flatnonzero(mask).tolist() for name, mask in found.items()}


@pytest.mark.parametrize("target", ["0.9", "0.995"])
@pytest.mark.parametrize(("method", "lsq"), RANKINGS)
@pytest.mark.parametrize("name", models.SAMPLES)
def test_default_algorithm_equals_the_papers_search(name: str, method: str, lsq: str, target: str) -> None:
    graph = filled(name)
    once = prune_graph(graph, plan(target, method, lsq))
    searched = prune_graph(graph, plan(target, method, lsq, algorithm="search"))
    assert (once.active, once.cut) == (searched.active, searched.cut)
    assert active_masks(graph, once) == active_masks(graph, searched)


@pytest.mark.parametrize("target", ["0.3", "0.99", "0.999"])
@pytest.mark.parametrize(("method", "lsq"), RANKINGS)
@pytest.mark.parametrize("name", models.SAMPLES)
def test_next_threshold_misses_the_target(name: str, method: str, lsq: str, target: str) -> None:
    """The next higher score leaves fewer active connections than the target, or none."""
    graph = filled(name)
    chosen = plan(target, method, lsq)
    pruned = prune_graph(graph, chosen)
    ranking = rank(graph, chosen)
    counted = ranking.scope.counted
    assert pruned.threshold is not None
    assert pruned.active >= min(pruned.wanted, count_active_at(graph, ranking.scores, counted, 0))
    above = [a[a > pruned.threshold].min() for a in ranking.scores.values() if (a > pruned.threshold).any()]
    higher = count_active_at(graph, ranking.scores, counted, float(min(above))) if above else 0
    assert higher < pruned.wanted
    assert pruned.out_of_reach == (higher == 0 and pruned.active > pruned.wanted)


@pytest.mark.parametrize("name", models.SAMPLES)
def test_all_kept_connections_are_active(name: str) -> None:
    graph = filled(name)
    pruned = prune_graph(graph, plan("0.95"))
    after = analyze_graph(graph.with_masks(pruned.masks)).totals
    assert after.kept == after.active == pruned.kept == pruned.active
    whole = prune_graph(graph, plan("0.95", keep_inactive=True))
    assert (whole.active, whole.removed) == (pruned.active, 0)
    assert whole.kept == pruned.kept + pruned.removed


@pytest.mark.parametrize(("lsq", "direct"), [("uniform", 0.976), ("erk", 0.989), ("igq", 0.9898)])
def test_direct_sparsity_needed_by_lenet(lsq: str, direct: float) -> None:
    """Reference values for an effective sparsity of 0.99: means over seeds."""
    needed = [prune_graph(lenet(), plan("0.99", lsq=lsq, seed=s, keep_inactive=True)).direct_sparsity for s in range(5)]
    assert np.mean(needed) == pytest.approx(direct, abs=6e-4)


@pytest.mark.parametrize(
    ("lsq", "compression", "active"),
    [
        ("uniform", 10, 25_588),
        ("erk", 10, 26_621),
        ("igq", 10, 26_621),
        ("uniform", 100, 252),
        ("erk", 100, 2_318),
        ("igq", 100, 2_607),
    ],
)
def test_active_connections_of_randomly_pruned_lenet(lsq: str, compression: int, active: int) -> None:
    """Reference values are means over 20 seeds; 8 are used here."""
    target = Fraction(compression - 1, compression)
    found = [
        prune_graph(lenet(), PrunePlan(target=target, method="random", lsq=lsq, direct=True, seed=s)).active
        for s in range(8)
    ]
    assert np.mean(found) == pytest.approx(active, rel=0.15 if active < 1000 else 0.006)


@pytest.mark.parametrize(("method", "lsq"), [*RANKINGS, ("random", "uniform+"), ("magnitude", "from:lamp")])
def test_direct_target_keeps_an_exact_count(method: str, lsq: str) -> None:
    pruned = prune_graph(lenet(), plan("0.97", method, lsq, direct=True))
    assert pruned.kept == pruned.wanted == 7_986
    assert sum(int(mask.sum()) for mask in pruned.masks.values()) == 7_986


@pytest.mark.parametrize("algorithm", ["bottleneck", "search", "aerp"])
def test_out_of_reach_names_the_layer_that_would_be_cut(algorithm: str) -> None:
    graph = filled("lstm")
    pruned = prune_graph(graph, plan("0.9999", lsq="uniform", algorithm=algorithm, seed=3))
    assert pruned.out_of_reach
    assert pruned.cut in graph.layers
    assert pruned.active > pruned.wanted
    assert not analyze_graph(graph.with_masks(pruned.masks)).disconnected
    gone = prune_graph(graph, plan("0.9999", lsq="uniform", algorithm=algorithm, seed=3, allow_disconnected=True))
    assert (gone.active, gone.kept) == (0, gone.wanted)


def test_excluded_layers_are_not_pruned_but_count() -> None:
    without = prune_graph(lenet(), plan("0.99", exclude=("4",)))
    assert set(without.masks) == {"0", "2"}
    assert without.connections == 266_200
    assert without.active == without.wanted
    only = prune_graph(lenet(), plan("0.99", only=("0", "2")))
    assert all((only.masks[name] == without.masks[name]).all() for name in only.masks)
    with pytest.raises(UsageError, match=r"keep 1,000 connections, but the target leaves only 267"):
        prune_graph(lenet(), plan("0.999", exclude=("4",), direct=True))
    with pytest.raises(UsageError, match="no layer name matches"):
        prune_graph(lenet(), plan("0.9", exclude=("fc*",)))


def test_random_scores_do_not_depend_on_other_layers() -> None:
    first = rank(lenet(), plan("0.9", lsq="global")).scores["2"]
    alone = rank(lenet(), plan("0.9", lsq="global", only=("2",))).scores["2"]
    assert (first == alone).all()


def masked_model() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 10))
    mask = torch.rand(20, 30) < 0.5
    prune.custom_from_mask(model[0], "weight", mask)  # type: ignore[no-untyped-call]
    return model


@pytest.mark.parametrize("method", ["random", "magnitude", "synflow"])
def test_from_masks_keeps_pruned_connections_pruned(method: str) -> None:
    graph = from_module(masked_model(), (torch.zeros(1, 30),), None, LoadOptions())
    kept = graph.layers["0"].kept()
    lifted = prune_graph(graph, plan("0.1", method, "global", rounds=5))
    held = prune_graph(graph, plan("0.6", method, "global", rounds=5, from_masks=True))
    assert (lifted.masks["0"] & ~kept).any()
    assert not (held.masks["0"] & ~kept).any()
    assert held.active == held.wanted


def test_note_if_the_mask_is_sparser_than_the_target() -> None:
    graph = from_module(masked_model(), (torch.zeros(1, 30),), None, LoadOptions())
    pruned = prune_graph(graph, plan("0.1", from_masks=True))
    assert pruned.active < pruned.wanted
    assert "sparser than the target" in pruned.notes[0]


@pytest.mark.parametrize("method", ["random", "magnitude"])
def test_pattern(method: str) -> None:
    pruned = prune_graph(filled("resnet_small"), plan("0.6", method, pattern=(2, 4)))
    assert pruned.active == pruned.wanted
    for name, mask in pruned.masks.items():
        if mask.shape[1] % 4 == 0:
            groups = mask.reshape(mask.shape[0], mask.shape[1] // 4, 4, -1)
            assert groups.sum(axis=2).max() <= 2, name


def test_results_depend_only_on_the_seed() -> None:
    first, again, other = (prune_graph(lenet(), plan("0.99", seed=s)) for s in (1, 1, 2))
    assert all((first.masks[name] == again.masks[name]).all() for name in first.masks)
    assert any((first.masks[name] != other.masks[name]).any() for name in first.masks)


TEN = [
    "resnet18",
    "resnet50",
    "vgg11",
    "densenet121",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "efficientnet_b0",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "regnet_y_400mf",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", TEN)
def test_torchvision(name: str) -> None:
    torch.manual_seed(0)
    model = getattr(torchvision_models(), name)().eval()
    graph = from_module(model, (torch.zeros(1, 3, 224, 224),), None, LoadOptions())
    for method, lsq, target in (("random", "igq", "0.99"), ("magnitude", "global", "0.9"), ("random", "erk", "0.95")):
        once = prune_graph(graph, plan(target, method, lsq))
        searched = prune_graph(graph, plan(target, method, lsq, algorithm="search"))
        assert once.active == searched.active
        assert all((once.masks[layer] == searched.masks[layer]).all() for layer in once.masks)


def test_weights_in_unknown_operators_are_named() -> None:
    b = Builder()
    inside = Layer("inside", "quant", (4, 4), lambda: np.ones((4, 4), bool), values=lambda: np.ones((4, 4)))
    made = b.opaque("theirs.Quant", [b.weight(inside)], (4, 4))
    graph = b.finish([b.product("ab,bc->ac", b.source("x", (1, 4)), made)])
    assert graph.layers_in_unknown_operators == ("inside",)
    done = prune_graph(graph, PrunePlan(target=Fraction(1, 2), method="magnitude"))
    (note,) = done.notes
    assert note == "weights of inside are used by unknown operators, for which a zero may not remove the connection"


def test_bias_carriers_that_were_removed_are_noted() -> None:
    """The first neuron keeps no weight, but its bias goes on through the largest weights of the last layer."""
    first, last = nn.Linear(3, 2), nn.Linear(2, 2)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[0.0, 0, 0], [1, 1, 1]]))
        first.bias.fill_(1)
        last.weight.copy_(torch.tensor([[2.0, 1], [2, 1]]))
    graph = from_module(nn.Sequential(first, nn.ReLU(), last).eval(), (torch.zeros(1, 3),), None, LoadOptions())
    done = prune_graph(graph, plan("0.5", "magnitude", "global"))
    assert (done.active, done.removed, done.removed_carriers) == (5, 2, 2)
    assert done.all_notes == ("2 of the removed inactive connections were bias carriers",)
