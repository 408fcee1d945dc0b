"""Budget-neutral mending keeps the number of connections, all of them active, whenever that is possible."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formatting import plural
from effsparse_cli.graph.graph import Graph
from effsparse_cli.mending.budget import keep_budget
from effsparse_cli.mending.result import DENSE, NONE, find_new_weights
from effsparse_cli.paths import find_joining
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.target import count_active
from tests.folding.nets import chains
from tests.pruning.models import SAMPLES, lenet_300_100
from tests.witnesses.graphs import graphs

PLAN = PrunePlan(target=Fraction(0))
FOLDER = Path(__file__).parents[2] / "sample_models"
FILES = {path.stem: path for path in FOLDER.iterdir() if path.stem in SAMPLES}


def all_positions(graph: Graph) -> list[tuple[str, int]]:
    return [(name, i) for name, found in graph.layers.items() for i in range(int(np.prod(found.shape)))]


def keep_only(graph: Graph, chosen: tuple[tuple[str, int], ...]) -> Graph:
    masks = {name: np.zeros(found.shape, bool) for name, found in graph.layers.items()}
    for name, place in chosen:
        masks[name].flat[place] = True
    return graph.with_masks(masks)


def is_possible(graph: Graph, number: int) -> bool:
    """Return whether any choice of `number` connections is all active."""
    every = combinations(all_positions(graph), number)
    return any(count_active(keep_only(graph, chosen), list(graph.layers)) == number for chosen in every)


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck), derandomize=True)
@given(chains(shortcuts=True, densities=(0.2, 0.4, 0.6)))
def test_budget_is_met_exactly_if_possible(graph: Graph) -> None:
    assume(len(all_positions(graph)) <= 9)
    dense = graph.with_masks({name: np.ones(found.shape, bool) for name, found in graph.layers.items()})
    kept = sum(int(found.kept().sum()) for found in graph.layers.values())
    assume(kept and count_active(dense, list(graph.layers)))
    result = keep_budget(graph, PLAN)
    after = analyze_graph(graph.with_masks(result.masks)).totals
    assert after.active == after.kept == result.kept == result.active
    if is_possible(graph, kept):
        assert result.kept == kept
    else:
        assert f"{plural(kept, 'connection')} w" in result.notes[-1]


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graphs())
def test_joining_connections_become_active_when_kept(graph: Graph) -> None:
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
    result = keep_budget(graph, PLAN)
    after = analyze_graph(graph.with_masks(result.masks)).totals
    assert (after.kept, after.active) == (2_662, 2_662)
    assert (result.kept, result.active, result.wanted) == (2_662, 2_662, 2_662)
    assert result.added == result.removed == result.valueless
    assert result.values == NONE


def test_revived_connections_are_ranked_by_and_get_dense_weights() -> None:
    graph = load(FILES["lenet300_uniform99"], LoadOptions())
    whole = lenet_300_100()
    dense = {name: whole.layers[old].values() for name, old in zip(graph.layers, whole.layers, strict=True)}  # type: ignore[misc]
    result = keep_budget(graph, PLAN, dense)
    assert (result.kept, result.active, result.values, result.valueless) == (2_662, 2_662, DENSE, 0)
    written = find_new_weights(graph, result, dense)
    assert set(written) == {name for name, mask in result.revived.items() if mask.any()}
    for name, array in written.items():
        mask, own = result.revived[name], graph.layers[name].values
        assert own is not None
        assert (array[mask] == dense[name][mask]).all()
        assert (array[~mask] == own()[~mask]).all()
        assert (array[result.masks[name]] != 0).all()
        # Ranked by magnitude: revived weights are larger than average.
        assert np.abs(dense[name][mask]).mean() > np.abs(dense[name]).mean()


@pytest.mark.parametrize("lsq", ["", "igq", "erk"])
@pytest.mark.parametrize("name", SAMPLES)
def test_sample_models(name: str, lsq: str) -> None:
    graph = load(FILES[name], LoadOptions())
    before = analyze_graph(graph).totals
    result = keep_budget(graph, PrunePlan(target=Fraction(0), lsq=lsq))
    after = analyze_graph(graph.with_masks(result.masks)).totals
    assert after.kept == after.active == before.kept > before.active
    assert result.added == result.removed


def test_nothing_changes_without_dead_connections() -> None:
    graph = load(FILES["figure1"], LoadOptions())
    clean = graph.with_masks(analyze_graph(graph, masks=True).active_masks)
    result = keep_budget(clean, PLAN)
    assert (result.added, result.removed, result.notes) == (0, 0, ())
