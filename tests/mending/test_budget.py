"""As many connections as before, all of them active: exactly, wherever any choice of connections is that."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.graph.graph import Graph
from effsparse_cli.mending.budget import keep_budget
from effsparse_cli.mending.result import DENSE, NONE, find_new_weights
from effsparse_cli.paths.boolean.joining import find_joining
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.target import count_active
from tests.folding.nets import chains
from tests.pruning.models import SAMPLES, lenet_300_100
from tests.witnesses.graphs import graphs

PLAN = PrunePlan(target=Fraction(0))
FOLDER = Path(__file__).parents[2] / "sample_models"
FILES = {path.stem: path for path in FOLDER.iterdir() if path.stem in SAMPLES}


def places(graph: Graph) -> list[tuple[str, int]]:
    return [(name, i) for name, found in graph.layers.items() for i in range(int(np.prod(found.shape)))]


def keeping(graph: Graph, chosen: tuple[tuple[str, int], ...]) -> Graph:
    masks = {name: np.zeros(found.shape, bool) for name, found in graph.layers.items()}
    for name, place in chosen:
        masks[name].flat[place] = True
    return graph.with_masks(masks)


def possible(graph: Graph, number: int) -> bool:
    """Is there any choice of so many connections that are all active?"""
    every = combinations(places(graph), number)
    return any(count_active(keeping(graph, chosen), list(graph.layers)) == number for chosen in every)


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck), derandomize=True)
@given(chains(shortcuts=True, densities=(0.2, 0.4, 0.6)))
def test_exact_wherever_that_is_possible(graph: Graph) -> None:
    assume(len(places(graph)) <= 9)
    dense = graph.with_masks({name: np.ones(found.shape, bool) for name, found in graph.layers.items()})
    kept = sum(int(found.kept().sum()) for found in graph.layers.values())
    assume(kept and count_active(dense, list(graph.layers)))
    done = keep_budget(graph, PLAN)
    after = analyze_graph(graph.with_masks(done.masks)).totals
    assert after.active == after.kept == done.kept == done.active
    if possible(graph, kept):
        assert done.kept == kept
    else:
        assert f"{kept:,} connections were kept" in done.notes[-1]


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graphs())
def test_what_joins_is_active_once_it_is_kept(graph: Graph) -> None:
    kept = {name: found.kept() for name, found in graph.layers.items()}
    joining = find_joining(graph, {name: ~mask for name, mask in kept.items()})
    names = list(graph.layers)
    number = sum(int(mask.sum()) for mask in joining.values())
    together = graph.with_masks({name: mask | joining[name] for name, mask in kept.items()})
    assert count_active(together, names) >= count_active(graph, names) + number
    for name, mask in joining.items():
        for place in np.flatnonzero(mask)[:2]:
            one = kept[name].copy()
            one.flat[place] = True
            assert count_active(graph.with_masks({name: one}), names) > count_active(graph, names)


def test_lenet_300_100_at_uniform_99() -> None:
    graph = load(FILES["lenet300_uniform99"], LoadOptions())
    before = analyze_graph(graph).totals
    assert (before.kept, before.active) == (2_662, 251)
    done = keep_budget(graph, PLAN)
    after = analyze_graph(graph.with_masks(done.masks)).totals
    assert (after.kept, after.active) == (2_662, 2_662)
    assert (done.kept, done.active, done.wanted) == (2_662, 2_662, 2_662)
    assert done.added == done.removed == done.valueless
    assert done.values == NONE


def test_dense_weights_rank_and_fill_what_comes_back() -> None:
    graph = load(FILES["lenet300_uniform99"], LoadOptions())
    whole = lenet_300_100()
    dense = {name: whole.layers[old].values() for name, old in zip(graph.layers, whole.layers, strict=True)}  # type: ignore[misc]
    done = keep_budget(graph, PLAN, dense)
    assert (done.kept, done.active, done.values, done.valueless) == (2_662, 2_662, DENSE, 0)
    written = find_new_weights(graph, done, dense)
    assert set(written) == {name for name, mask in done.revived.items() if mask.any()}
    for name, array in written.items():
        mask, own = done.revived[name], graph.layers[name].values
        assert own is not None
        assert (array[mask] == dense[name][mask]).all()
        assert (array[~mask] == own()[~mask]).all()
        assert (array[done.masks[name]] != 0).all()
        # Magnitude decided: what came back is larger than the rest.
        assert np.abs(dense[name][mask]).mean() > np.abs(dense[name]).mean()


@pytest.mark.parametrize("lsq", ["", "igq", "erk"])
@pytest.mark.parametrize("name", SAMPLES)
def test_sample_models(name: str, lsq: str) -> None:
    graph = load(FILES[name], LoadOptions())
    before = analyze_graph(graph).totals
    done = keep_budget(graph, PrunePlan(target=Fraction(0), lsq=lsq))
    after = analyze_graph(graph.with_masks(done.masks)).totals
    assert after.kept == after.active == before.kept > before.active
    assert done.added == done.removed


def test_nothing_dead_nothing_changed() -> None:
    graph = load(FILES["figure1"], LoadOptions())
    clean = graph.with_masks(analyze_graph(graph, masks=True).active_masks)
    done = keep_budget(clean, PLAN)
    assert (done.added, done.removed, done.notes) == (0, 0, ())
