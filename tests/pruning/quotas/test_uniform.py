"""Uniform: one sparsity for all, and the compression as the score."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.pruning import QUOTAS
from effsparse_cli.pruning.quotas import counts, densities, reach
from tests.pruning.quotas.models import lenet_300_100


def test_every_layer_has_the_total_sparsity() -> None:
    quota = QUOTAS["uniform"](lenet_300_100())
    density = densities(quota, 0.99)
    assert density == pytest.approx([0.01] * 3, rel=1e-12)
    assert counts(density, lenet_300_100(), 0.99).tolist() == [2352, 300, 10]
    assert reach(quota) == (0, 1)


def test_the_score_is_the_compression_at_which_a_weight_is_pruned() -> None:
    quota = QUOTAS["uniform"](lenet_300_100())
    assert quota.score(2, np.array([0.5, 0.9, 0.999])) == pytest.approx([2, 10, 1000])
