"""The shortlist gives the same threshold as the paper's search over the whole ranking."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.plan import PrunePlan, connections_left
from effsparse_cli.pruning.ranking import rank, score_scope
from effsparse_cli.pruning.scores.ranks import order_best, order_within
from effsparse_cli.pruning.shortlist import make_shortlist, search_shortlist
from effsparse_cli.pruning.target import search_threshold
from tests.pruning import models


@given(st.lists(st.integers(0, 4) | st.floats(0, 4, width=32), min_size=1, max_size=40), st.integers(0, 40))
def test_the_best_are_the_end_of_the_order(scores: list[float], count: int) -> None:
    array = np.array(scores, np.float32)
    count = min(count, len(scores))
    assert order_best(array, count).tolist() == order_within(array)[len(scores) - count :].tolist()


@pytest.mark.parametrize("target", ["0.9", "0.97", "0.99"])
@pytest.mark.parametrize(
    ("method", "lsq"), [("magnitude", "igq"), ("magnitude", "global"), ("random", "uniform"), ("random", "from:lamp")]
)
def test_the_threshold_is_that_of_the_search(method: str, lsq: str, target: str) -> None:
    graph = models.lenet_300_100()
    plan = PrunePlan(target=Fraction(target), method=method, lsq=lsq)
    wanted = connections_left(plan.target, 266_200)
    shortlist = make_shortlist(plan, score_scope(graph, plan), wanted)
    assert shortlist is not None
    found = search_shortlist(shortlist, wanted)
    ranking = rank(graph, plan)
    expected = search_threshold(graph, ranking.scores, ranking.scope.counted, wanted)
    if found is None:  # too short: uniform quotas at high sparsity lose most connections
        assert sum(int(np.count_nonzero(a >= expected.value)) for a in ranking.scores.values()) > 2 * wanted
    else:
        assert replace(found, passes=0) == replace(expected, passes=0)
        assert found.passes < expected.passes


def test_a_list_too_short_falls_back_to_the_whole_ranking() -> None:
    plan = PrunePlan(target=Fraction("0.999"), method="random", lsq="uniform", allow_disconnected=True)
    graph = models.lenet_300_100()
    wanted = connections_left(plan.target, 266_200)
    shortlist = make_shortlist(plan, score_scope(graph, plan), wanted)
    assert shortlist is None or search_shortlist(shortlist, wanted) is None
    assert prune_graph(graph, plan).active >= wanted
