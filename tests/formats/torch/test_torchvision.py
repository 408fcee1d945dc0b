"""Every classification model of torchvision lowers without an unknown operator, with all its weights."""

from __future__ import annotations

import math

import pytest
import torch

from tests.formats.torch.perturbed import lowered
from tests.torchvision_models import models

COUNTS = {
    "resnet18": 11_678_912,
    "resnet50": 25_502_912,
    "mobilenet_v2": 3_469_760,
    "densenet121": 7_894_208,
}
"""Convolution and linear weights on ImageNet."""
AUXILIARY = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False}}
FEW = ["resnet18", "mobilenet_v2", "shufflenet_v2_x0_5", "squeezenet1_1", "vit_b_32", "swin_t", "googlenet"]
ALL = models().list_models(module=models())


def check(name: str) -> None:
    """The layers of the graph and its unused tensors are together all weights with two or more axes."""
    model = models().get_model(name, weights=None, **AUXILIARY.get(name, {}))
    size = 299 if name == "inception_v3" else 224
    graph = lowered(model, (torch.zeros(1, 3, size, size),))
    assert graph.notes[1:] == ()
    found = {name: math.prod(layer.shape) for name, layer in graph.layers.items()}
    named = {name.removesuffix(".weight"): p.numel() for name, p in model.named_parameters()}
    assert found == {layer: named[layer] for layer in found}
    weights = {n.removesuffix(".weight") for n, p in model.named_parameters() if p.dim() > 1 and n.endswith("weight")}
    assert weights == {*found, *graph.unused}
    assert sum(found.values()) == COUNTS.get(name, sum(found.values()))
    if name.startswith("vit_b"):
        assert sum(n for layer, n in found.items() if layer.endswith("in_proj_weight")) == 12 * 2304 * 768


@pytest.mark.parametrize("name", FEW)
def test_some_models(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ALL if name not in FEW])
def test_all_other_models(name: str) -> None:
    check(name)
