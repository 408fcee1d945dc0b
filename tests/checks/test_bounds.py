"""Bounds are compared exactly, and messages never show two unequal numbers as equal."""

from __future__ import annotations

import re
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.analysis.results import Counts
from effsparse_cli.checks.bounds import check_direct, check_effective, check_gap

SHARES = st.decimals(0, 1, places=6, allow_nan=False).map(Fraction)


@st.composite
def counts(draw: st.DrawFn) -> Counts:
    connections = draw(st.integers(1, 10**6))
    kept = draw(st.integers(0, connections))
    active = draw(st.integers(0, kept))
    return Counts(connections, kept, active, no_output=kept - active)


@given(counts(), SHARES)
def test_bounds_are_exact(given: Counts, bound: Fraction) -> None:
    pruned = Fraction(given.connections - given.active, given.connections)
    low = list(check_effective("EFF003", given, {"min-effective": bound}))
    high = list(check_effective("EFF003", given, {"max-effective": bound}))
    assert (bool(low), bool(high)) == (pruned < bound, pruned > bound)


@given(counts(), SHARES)
def test_unequal_numbers_look_unequal(given: Counts, bound: Fraction) -> None:
    bounds = dict.fromkeys(["min-effective", "max-effective", "min-direct", "max-direct"], bound)
    for finding in [*check_effective("EFF003", given, bounds), *check_direct("EFF012", given, bounds)]:
        measured, wanted = re.findall(r"([\d.,]+) %", finding.message)
        assert measured != wanted
        assert finding.measured != finding.bound


@given(counts(), SHARES)
def test_the_gap_is_exact(given: Counts, bound: Fraction) -> None:
    findings = list(check_gap("EFF004", given, {"max-gap": bound}))
    assert bool(findings) == (Fraction(given.inactive, given.connections) > bound)
    for finding in findings:
        after, before, apart, wanted = re.findall(r"([\d.,]+) %", finding.message)
        assert apart != wanted
        assert before != after


@given(counts())
def test_a_bound_on_the_measured_number_holds(given: Counts) -> None:
    direct, effective = (Fraction(given.connections - n, given.connections) for n in (given.kept, given.active))
    exact: dict[str, Fraction | int] = {
        "min-effective": effective,
        "max-effective": effective,
        "min-direct": direct,
        "max-direct": direct,
        "max-gap": effective - direct,
        "max-inactive": given.inactive,
    }
    for check in (check_effective, check_direct, check_gap):
        assert not list(check("EFF000", given, exact))
