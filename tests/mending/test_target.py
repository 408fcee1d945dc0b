"""Mending to a target from either side: no result of the ranking is closer to the target."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.errors import UsageError
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.mending.candidates import find_candidates, rank_candidates
from effsparse_cli.mending.result import DENSE, FILE, NONE, DenseWeights, MendResult
from effsparse_cli.mending.target import mend_to_target
from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.scores.inputs import read_values
from effsparse_cli.pruning.target import count_active, count_active_at
from tests.folding.nets import chains, with_values
from tests.pruning.models import SAMPLES, filled
from tests.pruning.test_execute import TEN
from tests.torchvision_models import models as torchvision_models
from tests.witnesses.graphs import graphs

FOLDER = Path(__file__).parents[2] / "sample_models"
FILES = {path.stem: path for path in FOLDER.iterdir() if path.stem in SAMPLES}
whole = cache(filled)


@cache
def sample(name: str) -> Graph:
    return load(FILES[name], LoadOptions())


def plan(target: Fraction | str, **more: object) -> PrunePlan:
    return PrunePlan(target=Fraction(target), **more)  # type: ignore[arg-type]


def target_of(active: int, connections: int) -> Fraction:
    return 1 - Fraction(active, connections)


def check(graph: Graph, chosen: PrunePlan, result: MendResult, dense: DenseWeights | None = None) -> None:
    """Check that counts are right, all kept connections are active, and the next higher threshold leaves too few."""
    after = analyze_graph(graph.with_masks(result.masks)).totals
    assert (after.kept, after.active) == (result.kept, result.active)
    assert after.kept == after.active
    kept = {name: graph.layers[name].kept() for name in result.masks}
    assert all((result.revived[name] == (mask & ~kept[name])).all() for name, mask in result.masks.items())
    assert result.wanted is not None
    assert result.active >= result.wanted
    found = find_candidates(graph, chosen, dense)
    if not result.added:
        if not chosen.lsq:
            sizes = {name: np.abs(read_values(graph.layers[name])) for name in result.masks}
            least = min(float(sizes[name][mask].min()) for name, mask in result.masks.items() if mask.any())
            fewer = {name: mask & (sizes[name] > least) for name, mask in result.masks.items()}
            assert count_active(graph.with_masks(fewer), found.scope.counted) < result.wanted
        return
    scores = rank_candidates(found).scores
    last = min(float(scores[name][mask].min()) for name, mask in result.revived.items() if mask.any())
    above = min((float(a[a > last].min()) for a in scores.values() if (a > last).any()), default=np.inf)
    assert count_active_at(graph, scores, found.scope.counted, above) < result.wanted


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.one_of(chains(shortcuts=True), graphs()), st.integers(0, 9), st.booleans(), st.data())
def test_no_threshold_is_closer(graph: Graph, seed: int, valued: bool, data: st.DataObject) -> None:
    """Compare with every threshold of the ranking."""
    graph = with_values(graph, seed) if valued else graph
    assume(not any(layer.embedding for layer in graph.layers.values()))
    names = list(graph.layers)
    connections = sum(int(np.prod(layer.shape)) for layer in graph.layers.values())
    scores = rank_candidates(find_candidates(graph, plan("0", seed=seed), None)).scores
    levels = np.unique(np.concatenate([array.reshape(-1) for array in scores.values()]))
    levels = levels[levels > -np.inf][-15:]
    counts = [count_active_at(graph, scores, names, float(level)) for level in levels]
    assume(len(counts) and counts[0] > count_active(graph, names))
    wanted = data.draw(st.integers(count_active(graph, names) + 1, counts[0]))
    chosen = plan(target_of(wanted, connections), seed=seed)
    result = mend_to_target(graph, chosen)
    assert result.active == min(count for count in counts if count >= wanted)
    assert (result.wanted, result.values) == (wanted, FILE if valued else NONE)
    # No active connection was removed.
    before = analyze_graph(graph, masks=True).active_masks
    assert not any((before[name] & ~result.masks[name]).any() for name in names)


@pytest.mark.parametrize("lsq", ["", "igq", "uniform"])
@pytest.mark.parametrize("name", SAMPLES)
def test_target_is_reached_from_both_sides(name: str, lsq: str) -> None:
    graph = sample(name)
    before = analyze_graph(graph).totals
    for factor in (Fraction(1, 2), Fraction(3, 2), Fraction(3)):
        chosen = plan(target_of(int(before.active * factor), before.connections), lsq=lsq)
        result = mend_to_target(graph, chosen)
        check(graph, chosen, result)
        assert bool(result.added) == (factor > 1)
        if factor < 1:
            pruned = prune_graph(graph, replace(chosen, lsq=lsq or "global", from_masks=True))
            assert all((result.masks[layer] == mask).all() for layer, mask in pruned.masks.items())


@pytest.mark.parametrize("name", SAMPLES)
def test_masks_over_dense_weights(name: str) -> None:
    """Masked values in the file give the same result as the same values in a dense file."""
    masks = {layer: found.kept() for layer, found in sample(name).layers.items()}
    masked = whole(name).with_masks(masks)
    dense = {layer: np.asarray(found.values()) for layer, found in whole(name).layers.items() if found.values}
    before = analyze_graph(masked).totals
    chosen = plan(target_of(2 * before.active, before.connections))
    from_file, from_dense = mend_to_target(masked, chosen), mend_to_target(sample(name), chosen, dense)
    check(masked, chosen, from_file)
    check(sample(name), chosen, from_dense, dense)
    assert (from_file.values, from_dense.values) == (FILE, DENSE)
    assert all((from_file.masks[layer] == mask).all() for layer, mask in from_dense.masks.items())


def test_inactive_connections_become_active_with_revived_ones() -> None:
    graph = sample("lenet300_uniform99")
    dead = {name: layer.kept() for name, layer in graph.layers.items()}
    active = analyze_graph(graph, masks=True).active_masks
    result = mend_to_target(graph, plan("0.99"))
    assert result.active == 2_662
    back = sum(int((result.masks[name] & dead[name] & ~active[name]).sum()) for name in dead)
    assert back + result.added + 251 == 2_662
    assert back > 500


def test_keep_inactive() -> None:
    graph = sample("lenet5_igq")
    result = mend_to_target(graph, plan("0.98", keep_inactive=True))
    assert result.removed == 0
    assert result.active == result.wanted
    assert result.kept == analyze_graph(graph.with_masks(result.masks)).totals.kept > result.active
    bare = mend_to_target(graph, plan("0.98"))
    assert (bare.active, bare.added) == (result.active, result.added)


def test_seeds_and_excluded_layers() -> None:
    graph = sample("lenet300_uniform99")
    first, again, other = (mend_to_target(graph, plan("0.98", seed=s)) for s in (1, 1, 2))
    assert all((first.masks[name] == again.masks[name]).all() for name in first.masks)
    assert any((first.masks[name] != other.masks[name]).any() for name in first.masks)
    without = mend_to_target(graph, plan("0.99", exclude=("fc3",)))
    assert set(without.masks) == {"fc1", "fc2"}
    assert without.active == without.wanted


def test_dense_weights_of_another_model_are_refused() -> None:
    graph = sample("lenet300_uniform99")
    with pytest.raises(UsageError, match="have no layer fc1"):
        mend_to_target(graph, plan("0.9"), {})
    with pytest.raises(UsageError, match=r"fc1 has shape \(300, 784\), but \(2, 2\)"):
        mend_to_target(graph, plan("0.9"), {name: np.zeros((2, 2)) for name in graph.layers})
    empty = graph.with_masks({"fc2": np.zeros((100, 300), bool)})
    with pytest.raises(UsageError, match="the dense weights are zero"):
        mend_to_target(empty, plan("0.9"), {name: np.zeros(layer.shape) for name, layer in graph.layers.items()})


def torchvision(name: str, size: int) -> None:
    torch.manual_seed(0)
    graph = from_module(
        getattr(torchvision_models(), name)(num_classes=10).eval(),
        (torch.zeros(1, 3, size, size),),
        None,
        LoadOptions(),
    )
    rng = np.random.default_rng(0)
    graph = graph.with_masks({layer: rng.random(found.shape) < 0.02 for layer, found in graph.layers.items()})
    before = analyze_graph(graph).totals
    for factor in (Fraction(1, 2), Fraction(3, 2)):
        active = max(int(before.active * factor), before.connections // 100)
        chosen = plan(target_of(active, before.connections))
        result = mend_to_target(graph, chosen)
        check(graph, chosen, result)
        assert bool(result.added) == (active > before.active)


def test_a_small_torchvision_model() -> None:
    torchvision("squeezenet1_1", 64)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEN)
def test_torchvision(name: str) -> None:
    torchvision(name, 224)
