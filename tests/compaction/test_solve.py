"""The needed positions are the smallest set that meets all facts, compared with a search through all sets."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from effsparse_cli.compaction.positions import Ids, MergedAxis, PositionFacts, Terms
from effsparse_cli.compaction.solve import connect, find_needed, solve
from effsparse_cli.graph.primitives import Bools


@st.composite
def random_facts(draw: st.DrawFn) -> PositionFacts:
    """Four axes of two or four positions, one of which is a merged axis, and facts about them."""
    facts = PositionFacts()
    axes = [facts.axis(2), facts.axis(2), facts.axis(4), facts.axis(2)]
    facts.merged(axes[2], axes[0], axes[1])
    if draw(st.booleans()):
        facts.join(axes[draw(st.integers(0, 1))], axes[3])
    for _ in range(draw(st.integers(0, 3))):
        rows, columns = draw(st.sampled_from(axes)), draw(st.sampled_from(axes))
        bits = draw(st.lists(st.booleans(), min_size=len(rows) * len(columns), max_size=len(rows) * len(columns)))
        facts.terms(np.reshape(np.array(bits), (len(rows), len(columns))), (rows, columns), (1,))
    for _ in range(draw(st.integers(0, 2))):
        ids = draw(st.sampled_from(axes))
        facts.need(ids[: draw(st.integers(0, len(ids)))])
    return facts


def _merged_axis_holds(merged: MergedAxis, chosen: Bools) -> bool:
    """A merged position needs all of its parts, and parts that are all needed need their merged position."""
    tuples = product(*(range(len(part)) for part in merged.parts))
    for whole, places in zip(merged.whole, tuples, strict=True):
        parts = [chosen[part[i]] for part, i in zip(merged.parts, places, strict=True)]
        if chosen[whole] != all(parts):
            return False
    return True


def _terms_hold(terms: Terms, chosen: Bools) -> bool:
    rows, columns = terms.axes
    return all(
        chosen[columns[j]]
        for i in range(len(rows))
        for j in range(len(columns))
        if terms.nonzero[i, j] and chosen[rows[i]]
    )


@settings(max_examples=40, deadline=None)
@given(random_facts())
def test_needed_set_is_the_smallest_closed_set(facts: PositionFacts) -> None:
    found = find_needed(facts).of(np.arange(facts.size))
    common = np.ones(facts.size, bool)
    for bits in product([False, True], repeat=facts.size):
        chosen = np.array(bits)
        if all(chosen[ids].all() for ids in facts.needs) and _closed(facts, chosen):
            common &= chosen
    assert found.tolist() == common.tolist()


def _closed(facts: PositionFacts, chosen: Bools) -> bool:
    for a, b in facts.joins:
        if (chosen[a] != chosen[b]).any():
            return False
    for clause in facts.clauses:
        if isinstance(clause, Terms):
            if not _terms_hold(clause, chosen):
                return False
        elif not _merged_axis_holds(clause, chosen):
            return False
    return True


@settings(max_examples=150, deadline=None)
@given(random_facts())
def test_all_facts_are_met(facts: PositionFacts) -> None:
    chosen = solve(facts).of(np.arange(facts.size))
    assert _closed(_without_terms(facts), chosen)
    assert all(chosen[ids].all() for ids in facts.needs)
    assert all(chosen[ids].any() for ids in facts.axes)


def _without_terms(facts: PositionFacts) -> PositionFacts:
    """Drop sums: positions that only fill an axis need nothing."""
    return PositionFacts(
        facts.size, facts.joins, facts.needs, [c for c in facts.clauses if isinstance(c, MergedAxis)], facts.axes
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_connected_positions_have_one_number(pairs: list[tuple[int, int]]) -> None:
    groups = connect(10, [(np.array([a]), np.array([b])) for a, b in pairs])
    sets: list[set[int]] = [{i} for i in range(10)]
    for a, b in pairs:
        merged = next(s for s in sets if a in s) | next(s for s in sets if b in s)
        sets = [s for s in sets if not s & merged] + [merged]
    for members in sets:
        assert len({int(groups[i]) for i in members}) == 1
    assert len(set(groups.tolist())) == len(sets)


def test_chain_is_followed_backward() -> None:
    facts = PositionFacts()
    first, second, third = facts.axis(3), facts.axis(3), facts.axis(2)
    facts.terms(np.eye(3, dtype=bool), (second, first), (1,))
    facts.terms(np.array([[True, False, False], [False, False, True]]), (third, second), (1,))
    facts.need(third[:1])
    kept = solve(facts)
    axes: list[Ids] = [first, second, third]
    assert [kept.of(ids).tolist() for ids in axes] == [[True, False, False], [True, False, False], [True, False]]
