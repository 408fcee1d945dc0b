"""The models with reference values have the paper's numbers of weights."""

from __future__ import annotations

import pytest

from effsparse_cli.pruning.quotas import LayerSize
from tests.pruning.quotas.models import VGG16, VGG19, lenet_5, lenet_300_100, resnet_18, resnet_50, vgg


@pytest.mark.parametrize(
    ("layers", "tensors", "weights"),
    [
        pytest.param(lenet_300_100(), 3, 266_200, id="LeNet-300-100"),
        pytest.param(lenet_5(), 5, 61_770, id="LeNet-5"),
        pytest.param(vgg(VGG16, 10), 14, 14_715_584, id="VGG-16"),
        pytest.param(vgg(VGG19, 100), 17, 20_070_080, id="VGG-19"),
        pytest.param(resnet_18(200), 21, 11_261_632, id="ResNet-18"),
        pytest.param(resnet_50(), 54, 25_502_912, id="ResNet-50"),
    ],
)
def test_counts(layers: list[LayerSize], tensors: int, weights: int) -> None:
    assert len(layers) == tensors
    assert sum(layer.weights for layer in layers) == weights
