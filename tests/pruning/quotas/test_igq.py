"""Ideal Gas Quotas: reference densities, and the force itself."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.pruning import QUOTAS
from effsparse_cli.pruning.quotas import densities, reach
from effsparse_cli.pruning.quotas.allocation import sizes_of
from tests.pruning.quotas.models import lenet_5, lenet_300_100, resnet_50


@pytest.mark.parametrize(
    ("sparsity", "reference", "tolerance"),
    [
        (0.9, [0.06445, 0.3507, 0.9419], 1e-4),
        # The force 9.1636e-4 of these values leaves 2661.05 instead of 2662 connections, hence the tolerance.
        (0.99, [0.004618, 0.0351, 0.5218], 5e-4),
    ],
)
def test_reference_densities(sparsity: float, reference: list[float], tolerance: float) -> None:
    assert densities(QUOTAS["igq"](lenet_300_100()), sparsity) == pytest.approx(reference, rel=tolerance)


def test_the_force_for_99_percent() -> None:
    density = densities(QUOTAS["igq"](lenet_300_100()), 0.99)
    forces = (1 / density - 1) / sizes_of(lenet_300_100())
    assert forces == pytest.approx([forces[0]] * 3, rel=1e-12)
    assert forces[0] == pytest.approx(9.1636e-4, rel=5e-4)


def test_the_reference_force_gives_the_reference_densities() -> None:
    assert QUOTAS["igq"](lenet_300_100()).at(9.1636e-4) == pytest.approx([0.004618, 0.0351, 0.5218], rel=2e-4)


def test_the_score_is_the_force_at_which_a_weight_is_pruned() -> None:
    quota = QUOTAS["igq"](lenet_5())
    u = np.array([0.1, 0.5, 0.99])
    assert quota.score(1, u) == pytest.approx((1 / (1 - u) - 1) / 2400, rel=1e-12)


def test_every_sparsity_can_be_reached() -> None:
    quota = QUOTAS["igq"](resnet_50())
    assert reach(quota) == (0, 1)
    assert (densities(quota, 0) == 1).all()
    assert (densities(quota, 1) == 0).all()


def test_larger_layers_are_sparser() -> None:
    density = densities(QUOTAS["igq"](resnet_50()), 0.95)
    assert (np.diff(density[np.argsort(sizes_of(resnet_50()), kind="stable")]) <= 0).all()
