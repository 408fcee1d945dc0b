"""The models that people prune, pruned as people do, shrink and give the same outputs in onnxruntime."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import nn

from effsparse_cli.compact.torch.execute import module_to_onnx
from effsparse_cli.load.options import LoadOptions
from effsparse_cli.load.torch import from_module
from effsparse_cli.prune.execute import Plan, prune_graph
from effsparse_cli.save.torch import zero_weights
from tests.compact.networks import trained
from tests.torchvision_models import models


def lenet() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))


MODELS = {
    "lenet": (lenet, (1, 784)),
    "vgg19": (lambda: _vgg(), (1, 3, 32, 32)),
    "resnet18": (lambda: models().resnet18(num_classes=10), (1, 3, 64, 64)),
    "mobilenet": (lambda: models().mobilenet_v2(num_classes=10), (1, 3, 64, 64)),
}


def _vgg() -> nn.Module:
    """As on CIFAR: one linear layer behind the last pooling."""
    features = models().vgg19_bn().features
    return nn.Sequential(features, nn.Flatten(), nn.Linear(512, 10))


def shrunk(name: str, method: str, target: str) -> tuple[int, int]:
    """Weights before and after. `module_to_onnx` itself compares with the module, and raises if they differ."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = trained(make())
    graph = from_module(model, (torch.randn(shape),), None, LoadOptions())
    zero_weights(model, prune_graph(graph, Plan(Fraction(target), method)).masks)
    _, done = module_to_onnx(model, LoadOptions(input_shapes={"": shape}))
    assert done.unknown == ()
    assert done.after.flops < done.before.flops
    assert done.after.bytes < done.before.bytes
    return sum(math.prod(x.before) for x in done.layers), sum(math.prod(x.after) for x in done.layers)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["0.9", "0.99", "0.999"])
@pytest.mark.parametrize("name", ["lenet", "vgg19", "resnet18", "mobilenet"])
def test_shrinks(name: str, target: str) -> None:
    before, after = shrunk(name, "synflow" if name != "lenet" else "random", target)
    assert after < before
