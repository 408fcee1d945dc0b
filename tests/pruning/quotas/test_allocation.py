"""Properties of every quota, on generated layers over the whole range of sparsities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effsparse_cli.errors import UsageError
from effsparse_cli.pruning.quotas import LayerSize, counts, densities, reach
from effsparse_cli.pruning.quotas.allocation import Floats, sizes_of
from tests.pruning.quotas.generated import EVERY, all_scores, kept_by, layer_sizes
from tests.pruning.quotas.models import lenet_300_100, linear

ALL = pytest.mark.parametrize("name", EVERY)
FRACTIONS = st.floats(0, 1)


def at_fraction(name: str, layers: list[LayerSize], fraction: float) -> tuple[float, Floats] | None:
    """Return a sparsity in the quota's range and its densities; None at an open end of the range."""
    quota = EVERY[name](layers)
    low, high = reach(quota)
    sparsity = min(low + fraction * (high - low), high)
    try:
        return sparsity, densities(quota, sparsity)
    except UsageError:
        # Only near an open end, where some layers would be empty and others not.
        assert high < 1
        assert sparsity == pytest.approx(high, abs=1e-11)
        return None


@ALL
@given(layer_sizes(), FRACTIONS)
@example(lenet_300_100(), 0.0)
@example(lenet_300_100(), 1.0)
@example(lenet_300_100(), 1e-16)
@example(lenet_300_100(), 1 - 1e-16)
@settings(max_examples=150, deadline=None)
def test_totals_are_exact_and_no_layer_is_empty(name: str, layers: list[LayerSize], fraction: float) -> None:
    if (found := at_fraction(name, layers, fraction)) is None:
        return
    sparsity, density = found
    sizes = sizes_of(layers)
    assert abs((density * sizes).sum() - (1 - sparsity) * sizes.sum()) <= 3e-12 * sizes.sum()
    assert (density <= 1).all()
    assert (density > 0).all() if sparsity < 1 else not density.any()


@ALL
@given(layer_sizes(), FRACTIONS, FRACTIONS)
@settings(max_examples=100, deadline=None)
def test_densities_decrease_with_sparsity(name: str, layers: list[LayerSize], a: float, b: float) -> None:
    first, second = (at_fraction(name, layers, fraction) for fraction in sorted((a, b)))
    if first is not None and second is not None:
        assert (first[1] >= second[1]).all()


@ALL
@given(layer_sizes(), FRACTIONS)
@settings(max_examples=100, deadline=None)
def test_counts_add_up_and_match_the_densities(name: str, layers: list[LayerSize], fraction: float) -> None:
    if (found := at_fraction(name, layers, fraction)) is None:
        return
    sparsity, density = found
    sizes = sizes_of(layers)
    kept = counts(density, layers, sparsity)
    total = round((1 - sparsity) * sizes.sum())
    assert kept.sum() == total
    assert (kept <= sizes).all()
    assert kept.min() >= (1 if total >= len(layers) and sparsity < 1 else 0)
    if (density * sizes >= 1).all():
        assert (abs(kept - density * sizes) < 1 + 1e-9 * sizes).all()


@ALL
@given(layer_sizes(), FRACTIONS)
@settings(max_examples=100, deadline=None)
def test_scores_above_a_threshold_match_the_densities_at_that_pressure(
    name: str, layers: list[LayerSize], fraction: float
) -> None:
    """Thresholds are taken from the scores, so that every step of the ranking can occur."""
    quota = EVERY[name](layers)
    sizes = sizes_of(layers)
    finite = np.unique(np.concatenate(all_scores(quota)))
    finite = finite[np.isfinite(finite)]
    if finite.size == 0:
        return
    threshold = float(finite[int(fraction * (finite.size - 1))])
    wanted = quota.at(threshold)
    assert (abs(kept_by(quota, threshold) - wanted * sizes) <= 0.5 + 1e-9 * sizes).all()
    sparsity = 1 - float((wanted * sizes).sum() / sizes.sum())
    assert densities(quota, max(sparsity, 0.0)) == pytest.approx(wanted, abs=1e-9)


@ALL
@given(layer_sizes())
@settings(max_examples=50, deadline=None)
def test_scores_rise_with_the_rank(name: str, layers: list[LayerSize]) -> None:
    for scores in all_scores(EVERY[name](layers)):
        assert not np.isnan(scores).any()
        assert (scores[1:] >= scores[:-1]).all()


@ALL
@pytest.mark.parametrize("sparsity", [-0.1, 1.5, float("nan")])
def test_a_sparsity_outside_0_to_1_is_refused(name: str, sparsity: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        densities(EVERY[name](lenet_300_100()), sparsity)


def test_remainders_go_to_the_largest_then_to_the_first() -> None:
    layers = [linear(1, 10), linear(1, 10), linear(1, 10)]
    assert counts(np.array([0.25, 0.29, 0.26]), layers, 1 - 8 / 30).tolist() == [2, 3, 3]
    assert counts(np.array([0.25, 0.25, 0.25]), layers, 1 - 7 / 30).tolist() == [3, 2, 2]


def test_an_empty_layer_takes_from_the_layer_with_the_most_to_spare() -> None:
    layers = [linear(1, 10), linear(10, 10), linear(10, 10)]
    assert counts(np.array([0.01, 0.022, 0.057]), layers, 1 - 8 / 210).tolist() == [1, 2, 5]


def test_a_layer_of_density_0_stays_empty() -> None:
    assert counts(np.array([0.0, 0.5]), [linear(1, 10), linear(1, 10)], 0.75).tolist() == [0, 5]


def test_fewer_connections_than_layers() -> None:
    layers = lenet_300_100()
    density = densities(EVERY["uniform"](layers), 1 - 2 / 266200)
    assert counts(density, layers, 1 - 2 / 266200).tolist() == [2, 0, 0]
