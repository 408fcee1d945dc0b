"""The threshold from the bottleneck pass, compared with every possible threshold at the level of single positions."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effsparse_cli.graph.graph import Graph
from effsparse_cli.pruning.execute import settle_ties
from effsparse_cli.pruning.ranking import Ranking
from effsparse_cli.pruning.scope import Scope
from effsparse_cli.pruning.target import count_active, count_active_at, find_threshold
from tests.paths.bottleneck.test_scores import scored
from tests.witnesses.graphs import graphs


@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graphs(), st.integers(0, 9), st.data())
def test_of_equal_scores_no_more_are_kept_than_needed(graph: Graph, seed: int, data: st.DataObject) -> None:
    """With five different scores, most connections are equal to others."""
    scores, counted = scored(graph, seed), tuple(graph.layers)
    scope = Scope(graph, counted, counted)
    ranking = Ranking(scores, scope, {}, None)
    total = sum(array.size for array in scores.values())
    active = [count_active(graph.with_masks(ranking.best(counted, k)), counted) for k in range(total + 1)]
    if not active[-1]:
        return
    wanted = data.draw(st.integers(1, active[-1]))
    found, kept = settle_ties(graph, ranking, find_threshold(graph, scores, counted, wanted), wanted)
    assert found.active == active[kept] == next(each for each in active if each >= wanted)
    assert found.active == wanted or found.next_active < wanted


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graphs(), st.integers(0, 9), st.data())
def test_no_higher_threshold_leaves_enough(graph: Graph, seed: int, data: st.DataObject) -> None:
    scores = scored(graph, seed)
    counted = list(graph.layers)
    exhaustive = {t: count_active_at(graph, scores, counted, t) for t in (1.0, 2.0, 3.0, 4.0, 5.0)}
    most = exhaustive[1.0]
    if not most:
        return
    wanted = data.draw(st.integers(1, most))
    reached = find_threshold(graph, scores, counted, wanted)
    best = max(t for t, active in exhaustive.items() if active >= wanted)
    assert reached.active == exhaustive[best]
    assert reached.active == count_active_at(graph, scores, counted, reached.value)
    assert reached.next_active == exhaustive.get(best + 1, 0)
