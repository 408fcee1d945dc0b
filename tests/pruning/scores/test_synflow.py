"""SynFlow, compared with its authors' algorithm in torch, in rounds, and at a depth where float32 overflows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from effsparse_cli.formats import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.plan import PrunePlan


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(54, 20), nn.ReLU(),
        nn.Linear(20, 5),
    )  # fmt: skip


def prune_in_torch(model: nn.Sequential, shape: tuple[int, ...], density: float, rounds: int) -> list[np.ndarray]:
    """Use absolute weights, no biases, and an input of ones. Each round removes the k lowest scores, where k is rounded
    down as in the authors' code."""
    weights = [m.weight for m in model if isinstance(m, nn.Conv2d | nn.Linear)]
    for module in model:
        module.double()
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.bias = None
    with torch.no_grad():
        for weight in weights:
            weight.abs_()
    masks = [torch.ones_like(weight) for weight in weights]
    originals = [weight.detach().clone() for weight in weights]
    for k in range(1, rounds + 1):
        for weight, original, mask in zip(weights, originals, masks, strict=True):
            weight.data = original * mask
        gradients = torch.autograd.grad(model(torch.ones(shape, dtype=torch.float64)).sum(), weights)
        scores = [(g * w).detach() for g, w in zip(gradients, weights, strict=True)]
        flat = torch.cat([score.flatten() for score in scores])
        remove = int((1.0 - density ** (k / rounds)) * flat.numel())
        if remove:
            threshold = flat.kthvalue(remove).values
            masks = [(score > threshold).double() for score in scores]
    return [mask.bool().numpy() for mask in masks]


def test_masks_equal_those_of_torch() -> None:
    graph = from_module(network(), (torch.zeros(1, 2, 6, 6),), None, LoadOptions())
    for target, rounds in (("0.5", 1), ("0.9", 10), ("0.97", 30)):
        ours = prune_graph(graph, PrunePlan(target=Fraction(target), method="synflow", direct=True, rounds=rounds))
        theirs = prune_in_torch(network(), (1, 2, 6, 6), 1 - float(target), rounds)
        for mask, other in zip(ours.masks.values(), theirs, strict=True):
            np.testing.assert_array_equal(mask, other)


@pytest.mark.parametrize(("compression", "left"), [(100, 2662), (1000, 267)])
def test_lenet_masks_equal_those_of_the_authors(compression: int, left: int) -> None:
    def lenet() -> nn.Sequential:
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))

    graph = from_module(lenet(), (torch.zeros(1, 784),), None, LoadOptions())
    ours = prune_graph(graph, PrunePlan(target=1 - Fraction(1, compression), method="synflow", direct=True))
    theirs = prune_in_torch(lenet(), (1, 784), 1 / compression, 100)
    assert sum(int(mask.sum()) for mask in theirs) == left
    for mask, other in zip(ours.masks.values(), theirs, strict=True):
        np.testing.assert_array_equal(mask, other)


def test_a_thousand_layers() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(4, 4, bias=False) for _ in range(1000)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(1 + torch.rand(4, 4))
    model = nn.Sequential(*layers)
    assert model(torch.ones(1, 4)).isinf().all()
    graph = from_module(model, (torch.zeros(1, 4),), None, LoadOptions())
    pruned = prune_graph(graph, PrunePlan(target=Fraction("0.5"), method="synflow", rounds=3))
    assert pruned.active == pruned.wanted == 8000
    assert pruned.threshold is not None
    assert np.isfinite(pruned.threshold)
