"""Targets are exact as written, and invalid ones are errors."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.errors import UsageError
from effsparse_cli.pruning.plan import connections_left, parse_pattern, parse_target


@pytest.mark.parametrize(
    ("sparsity", "compression", "left"),
    [("0.99", None, 1000), (None, "100", 1000), ("0.999", None, 100), (None, "3", 33_334), ("0", None, 100_000)],
)
def test_a_target_is_an_exact_number_of_connections(sparsity: str | None, compression: str | None, left: int) -> None:
    assert connections_left(parse_target(sparsity, compression), 100_000) == left


@given(st.integers(0, 99_999), st.integers(1, 10**9))
def test_connections_left_is_the_smallest_number_within_the_target(parts: int, connections: int) -> None:
    target = parse_target(f"0.{parts:05}", None)
    left = connections_left(target, connections)
    assert 1 - Fraction(left, connections) <= target
    assert left == 1 or 1 - Fraction(left - 1, connections) > target


@pytest.mark.parametrize(
    ("sparsity", "compression"),
    [("1", None), ("-0.1", None), ("x", None), (None, "0.5"), (None, "0"), (None, None), ("0.9", "10"), ("1/0", None)],
)
def test_invalid_target(sparsity: str | None, compression: str | None) -> None:
    with pytest.raises(UsageError):
        parse_target(sparsity, compression)


@pytest.mark.parametrize("text", ["2", "4:2", "0:4", "a:b", "2:4:8", "-1:4"])
def test_invalid_pattern(text: str) -> None:
    with pytest.raises(UsageError, match="N:M"):
        parse_pattern(text)
