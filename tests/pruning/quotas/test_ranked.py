"""The quota of a global ranking: each layer keeps as many connections as the ranking leaves it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effsparse_cli.pruning.quotas import LayerSize, counts, densities, reach
from effsparse_cli.pruning.quotas.allocation import sizes_of
from effsparse_cli.pruning.quotas.ranked import from_scores
from tests.pruning.quotas.generated import all_scores, kept_by, layer_sizes
from tests.pruning.quotas.models import linear


@given(layer_sizes(), st.floats(0, 1), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_layers_keep_as_many_as_the_ranking(layers: list[LayerSize], fraction: float, ties: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = [rng.integers(-2, 3 if ties else 10**9, layer.shape).astype(np.float64) for layer in layers]
    owner = np.repeat(np.arange(len(layers)), [layer.weights for layer in layers])
    falling = np.lexsort((-np.arange(owner.size), np.concatenate([values.reshape(-1) for values in scores])))
    fallen = int(fraction * owner.size)
    left = np.bincount(owner[falling[fallen:]], minlength=len(layers)).tolist()

    quota = from_scores("from:test", layers, scores)
    sparsity = fallen / owner.size
    density = densities(quota, sparsity)
    assert density * sizes_of(layers) == pytest.approx(left, abs=1e-8)
    assert counts(density, layers, sparsity).tolist() == left
    assert kept_by(quota, fallen).tolist() == left


@given(layer_sizes(), st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_totals_are_exact_between_steps(layers: list[LayerSize], fraction: float) -> None:
    quota = from_scores("from:test", layers, [np.zeros(layer.shape, np.float32) for layer in layers])
    sizes = sizes_of(layers)
    fallen = fraction * sizes.sum()
    density = quota.at(fallen)
    assert (density * sizes).sum() == pytest.approx(sizes.sum() - fallen, abs=1e-8)
    assert (abs(kept_by(quota, fallen) - density * sizes) <= 0.5 + 1e-8).all()
    assert all((np.diff(values) > 0).all() for values in all_scores(quota))


def test_a_layer_that_the_ranking_empties_is_empty() -> None:
    layers = [linear(1, 4), linear(1, 4)]
    quota = from_scores("from:test", layers, [np.arange(4.0), np.arange(4.0) + 10])
    assert reach(quota) == (0, 1)
    assert densities(quota, 0.5).tolist() == [0, 1]
    assert counts(densities(quota, 0.625), layers, 0.625).tolist() == [0, 3]
