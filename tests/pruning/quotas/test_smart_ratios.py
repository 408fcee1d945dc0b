"""Smart-ratios: the paper's rule, redistribution of densities above 1, and fixed linear layers."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.pruning import QUOTAS
from effsparse_cli.pruning.quotas import densities, reach
from effsparse_cli.pruning.quotas.allocation import clipped, sizes_of
from tests.pruning.quotas.models import VGG16, conv, lenet_300_100, linear, vgg

LAYERS = vgg(VGG16, 10)
FROM_END = np.arange(14, 0, -1)


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.8, 0.9, 0.99, 0.999])
def test_vgg_16_reaches_the_sparsity(sparsity: float) -> None:
    density, sizes = densities(QUOTAS["smart-ratios"](LAYERS), sparsity), sizes_of(LAYERS)
    assert (density * sizes).sum() / sizes.sum() == pytest.approx(1 - sparsity, rel=1e-12)
    assert density[-1] == 0.3
    free = density[:-1] < 1
    scale = (density / (FROM_END**2 + FROM_END))[:-1][free]
    assert scale == pytest.approx([scale[0]] * free.sum(), rel=1e-12)


def test_layers_above_density_1_are_dense() -> None:
    assert np.count_nonzero(densities(QUOTAS["smart-ratios"](LAYERS), 0.9) == 1) == 0
    assert np.count_nonzero(densities(QUOTAS["smart-ratios"](LAYERS), 0.5) == 1) == 7


def test_the_published_rates_lose_a_fifth_unless_they_are_redistributed() -> None:
    """The published code also divides by l^2, and clips at 1 without redistribution: 7.93 % instead of 10 %."""
    sizes = sizes_of(LAYERS)
    rates = (FROM_END**2 + FROM_END) / np.arange(1, 15) ** 2
    scale = (0.1 * sizes.sum() - 0.3 * 5120) / (rates * sizes)[:-1].sum()
    cut = np.append(np.minimum(1, scale * rates[:-1]), 0.3)
    assert (cut * sizes).sum() / sizes.sum() == pytest.approx(0.0793, abs=5e-5)
    floors, ceilings = [0.0] * 13 + [0.3], [1.0] * 13 + [0.3]
    density = densities(clipped("published", LAYERS, rates.tolist(), floors, ceilings), 0.9)
    assert (density * sizes).sum() / sizes.sum() == pytest.approx(0.1, rel=1e-12)


def test_the_fixed_layers_bound_the_range() -> None:
    """Of 40 weights 4 are linear: 1.2 of them are always kept, 2.8 never."""
    quota = QUOTAS["smart-ratios"]([conv(2, 2, 3), linear(4, 1)])
    assert reach(quota) == pytest.approx((2.8 / 40, 1 - 1.2 / 40))
    for sparsity in (0.0, 0.05, 1 - 1.2 / 40, 1.0):
        with pytest.raises(UsageError, match=r"from 0.07 to just below 0.97"):
            densities(quota, sparsity)


def test_a_net_of_linear_layers_has_one_sparsity() -> None:
    quota = QUOTAS["smart-ratios"](lenet_300_100())
    assert densities(quota, 0.7) == pytest.approx([0.3] * 3)
    with pytest.raises(UsageError, match=r"reaches only 0.7"):
        densities(quota, 0.9)


def test_linear_scores_are_kept_by_every_pressure_or_by_none() -> None:
    scores = QUOTAS["smart-ratios"](LAYERS).score(13, (np.arange(5120) + 0.5) / 5120)
    assert np.isposinf(scores[-1536:]).all()
    assert np.isneginf(scores[:-1536]).all()
