"""ERK: reference densities, RigL's procedure and published sizes, and the strict variant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effsparse_cli.errors import UsageError
from effsparse_cli.pruning import QUOTAS
from effsparse_cli.pruning.quotas import LayerSize, densities, reach
from effsparse_cli.pruning.quotas.allocation import Floats, sizes_of
from tests.pruning.quotas.generated import layer_sizes
from tests.pruning.quotas.models import VGG16, VGG19, lenet_300_100, resnet_18, resnet_50, vgg


@pytest.mark.parametrize(("sparsity", "reference"), [(0.9, [0.07957, 0.2302, 1]), (0.99, [0.007697, 0.02227, 0.1837])])
def test_reference_densities(sparsity: float, reference: list[float]) -> None:
    assert densities(QUOTAS["erk"](lenet_300_100()), sparsity) == pytest.approx(reference, rel=2e-4)


def rigl(layers: list[LayerSize], sparsity: float) -> Floats:
    """Scale; while a layer exceeds density 1, make the one with the highest rate dense and rescale the others."""
    sizes = sizes_of(layers)
    rates = np.array([sum(layer.shape) for layer in layers]) / sizes
    dense = np.zeros(len(layers), bool)
    while not dense.all():
        scale = ((1 - sparsity) * sizes.sum() - sizes[dense].sum()) / (rates * sizes)[~dense].sum()
        highest = rates[~dense].max()
        if scale * highest <= 1:
            return np.where(dense, 1, scale * rates)
        dense |= rates == highest
    return np.ones(len(layers))


@given(layer_sizes(), st.floats(0, 0.999))
@settings(max_examples=300, deadline=None)
def test_making_the_largest_dense_first_equals_clipping(layers: list[LayerSize], sparsity: float) -> None:
    assert densities(QUOTAS["erk"](layers), sparsity) == pytest.approx(rigl(layers, sparsity), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("sparsity", "dense", "megabytes"), [(0.8, 8, 23.683), (0.9, 1, 13.499), (0.95, 0, 8.399)])
def test_sizes_published_by_rigl_for_resnet_50(sparsity: float, dense: int, megabytes: float) -> None:
    """32 bits per kept weight, 1 per weight of a sparse layer, 32 per bias: the classifier's and the shifts of
    the norms, one per output of each convolution."""
    layers = resnet_50()
    density, sizes = densities(QUOTAS["erk"](layers), sparsity), sizes_of(layers)
    biases = sum(layer.shape[0] for layer in layers)
    bits = 32 * (density * sizes).sum() + sizes[density < 1].sum() + 32 * biases
    assert np.count_nonzero(density == 1) == dense
    assert bits / 8e6 == pytest.approx(megabytes, abs=1e-3)


@pytest.mark.parametrize(
    ("layers", "bound"),
    [
        pytest.param(resnet_18(200), "0.98011", id="ResNet-18"),
        pytest.param(vgg(VGG16, 10), "0.994309", id="VGG-16"),
        pytest.param(vgg(VGG19, 100), "0.986783", id="VGG-19"),
    ],
)
def test_strict_refuses_densities_above_1(layers: list[LayerSize], bound: str) -> None:
    """The paper (section 4) says that ERK is invalid below 98 % for ResNet-18 and below 99 % for both VGGs."""
    strict, lenient = QUOTAS["erk"](layers, strict=True), QUOTAS["erk"](layers)
    low, high = reach(strict)
    assert low == pytest.approx(float(bound), abs=1e-6)
    assert high == 1
    with pytest.raises(UsageError, match=rf"erk \(strict\) cannot reach a sparsity of 0.9 .* from {bound} to 1"):
        densities(strict, 0.9)
    assert densities(strict, low + 1e-4) == pytest.approx(densities(lenient, low + 1e-4), rel=1e-12)
    assert densities(strict, low + 1e-4).max() < 1
    assert densities(lenient, low - 1e-4).max() == 1
