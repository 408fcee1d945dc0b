"""LAMP, compared with its definition in exact fractions, also where floats lose precision."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effsparse_cli.pruning.scores.ranks import order_within
from tests.pruning.scores.arrays import score_arrays


def by_definition(weights: list[float]) -> list[float]:
    """Among equals the earlier position counts as the larger."""
    squares = [Fraction(w) ** 2 for w in weights]
    scores = []
    for u, square in enumerate(squares):
        tail = sum(s for v, s in enumerate(squares) if s > square or (s == square and v <= u))
        scores.append(float(square / tail) if tail else 0.0)
    return scores


WEIGHTS = st.lists(st.floats(-100, 100, width=32) | st.sampled_from([0.0, -0.5, 0.5, 2.0]), min_size=1, max_size=30)


@given(WEIGHTS)
@settings(max_examples=200, deadline=None)
def test_scores_equal_the_definition(weights: list[float]) -> None:
    (scores,) = score_arrays("lamp", np.array(weights, np.float32))
    assert scores.tolist() == pytest.approx(by_definition(weights), rel=1e-12, abs=1e-300)


def test_layers_are_scored_separately_and_the_largest_weight_has_score_1() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((20, 30)).astype(np.float32) * scale for scale in (1e-4, 1, 1e4)]
    for scores, values in zip(score_arrays("lamp", *weights), weights, strict=True):
        assert scores.shape == values.shape
        assert scores.reshape(-1)[abs(values).argmax()] == scores.max() == 1
        assert (order_within(scores) == order_within(abs(values))).all()


def test_tail_sums_keep_their_precision() -> None:
    """Half a million weights of similar size: subtracting a prefix from the total would lose six of sixteen digits."""
    weights = (1 + np.random.default_rng(3).random((500, 1000)) / 4).astype(np.float32)
    (scores,) = score_arrays("lamp", weights)
    top = np.sort(order_within(weights)[-50:])
    expected = by_definition(weights.reshape(-1)[top].tolist())
    assert scores.reshape(-1)[top].tolist() == pytest.approx(expected, rel=1e-14)


def test_extreme_weights() -> None:
    (scores,) = score_arrays("lamp", np.array([1e300, -2e300]))
    assert scores.tolist() == pytest.approx([0.2, 1])
    (scores,) = score_arrays("lamp", np.zeros((2, 2), np.float32))
    assert scores.tolist() == [[0, 0], [0, 0]]
    (scores,) = score_arrays("lamp", np.zeros((0, 3), np.float32))
    assert scores.shape == (0, 3)


def test_nan_and_infinity_are_pruned_last_and_ignored_in_sums() -> None:
    (scores,) = score_arrays("lamp", np.array([1, np.nan, 3, -np.inf], np.float32))
    assert scores.tolist() == [pytest.approx(0.1), np.inf, 1, np.inf]
    (scores,) = score_arrays("lamp", np.array([np.nan], np.float32))
    assert scores.tolist() == [np.inf]
