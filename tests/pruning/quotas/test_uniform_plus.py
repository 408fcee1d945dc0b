"""Uniform+: dense first convolution, capped last linear layer, and the resulting range."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.pruning import QUOTAS
from effsparse_cli.pruning.quotas import LayerSize, densities, reach
from tests.pruning.quotas.models import conv, lenet_5, lenet_300_100, linear, resnet_18


@pytest.mark.parametrize(
    ("layers", "sparsity", "end"), [(lenet_5(), 0.99, "0.989995"), (resnet_18(200), 0.999, "0.998027")]
)
def test_errors_name_the_range(layers: list[LayerSize], sparsity: float, end: str) -> None:
    quota = QUOTAS["uniform+"](layers)
    with pytest.raises(UsageError, match=f"from 0 to just below {end}"):
        densities(quota, sparsity)
    assert (densities(quota, float(end)) > 0).all()


def test_lenet_5_by_hand() -> None:
    """Of 61,770 weights 450 are dense; at 0.5 the cap has no effect, at 0.95 it keeps 168 of 840."""
    rest = (61_770 / 2 - 450) / 61_320
    assert densities(QUOTAS["uniform+"](lenet_5()), 0.5) == pytest.approx([1, rest, rest, rest, rest])
    rest = (61_770 * 0.05 - 450 - 168) / 60_480
    assert densities(QUOTAS["uniform+"](lenet_5()), 0.95) == pytest.approx([1, rest, rest, rest, 0.2])


def test_without_convolutions_only_the_cap_remains() -> None:
    rest = (2662 - 200) / 265_200
    assert densities(QUOTAS["uniform+"](lenet_300_100()), 0.99) == pytest.approx([rest, rest, 0.2])


def test_the_last_linear_layer_need_not_be_last() -> None:
    layers = [linear(5, 5), conv(4, 4, 3), linear(8, 5), conv(4, 4, 1)]
    density = densities(QUOTAS["uniform+"](layers), 0.25)
    assert density[1] == 1
    assert densities(QUOTAS["uniform+"](layers), 0.31)[2] == 0.2
    assert density[0] == density[2] == density[3]


def test_a_single_convolution_can_only_be_dense() -> None:
    quota = QUOTAS["uniform+"]([conv(2, 3, 3)])
    assert reach(quota) == (0, 0)
    assert densities(quota, 0).tolist() == [1]
    with pytest.raises(UsageError, match="reaches only 0"):
        densities(quota, 0.5)


def test_weights_that_are_never_pruned_have_infinite_scores() -> None:
    quota = QUOTAS["uniform+"](lenet_5())
    first, last = (quota.score(i, (np.arange(n) + 0.5) / n) for i, n in ((0, 450), (4, 840)))
    assert np.isposinf(first).all()
    assert np.isposinf(last).sum() == 168
    assert np.isfinite(quota.score(1, np.array([0.001, 0.999]))).all()
