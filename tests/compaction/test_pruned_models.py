"""Common models, pruned in the usual way, shrink and keep their outputs in onnxruntime."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import nn

from effsparse_cli.compaction.results import CompactResult
from effsparse_cli.compaction.torch.execute import module_to_onnx
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.formats.torch.apply_masks import zero_weights
from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.plan import PrunePlan
from tests.compaction.networks import trained
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
    """VGG for CIFAR: one linear layer after the last pooling."""
    features = models().vgg19_bn().features
    return nn.Sequential(features, nn.Flatten(), nn.Linear(512, 10))


def uneven(model: nn.Module) -> nn.Module:
    """Scale filters differently, as training does: weights from one distribution lose whole filters only at extreme
    sparsity."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(torch.randn(len(parameter), *(1,) * (parameter.ndim - 1)).mul(1.5).exp())
    return model


def settled(model: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """Set the statistics of norms as training does: otherwise rounding errors grow from layer to layer."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randn(8, *shape[1:]))
    return model.eval()


def compacted(name: str, target: str) -> CompactResult:
    """Compact a pruned model; `module_to_onnx` itself compares it with the module."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = settled(uneven(trained(make())), shape)
    graph = from_module(model, (torch.randn(shape),), None, LoadOptions())
    zero_weights(model, prune_graph(graph, PrunePlan(target=Fraction(target))).masks)
    return module_to_onnx(model, LoadOptions(input_shapes={"": shape}))[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_shrinks(name: str) -> None:
    found = [compacted(name, target) for target in ("0.9", "0.99", "0.999")]
    assert all(done.unknown == () for done in found)
    assert all(done.difference <= 1e-4 * done.scale for done in found)
    first = found[0].before.flops
    assert first > found[0].after.flops > found[1].after.flops > found[2].after.flops
    assert found[0].before.bytes > found[0].after.bytes > found[1].after.bytes > found[2].after.bytes
