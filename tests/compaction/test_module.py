"""Modules become smaller modules with the same outputs and updated sizes; the original does not change."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from effsparse_cli.api import compact
from effsparse_cli.errors import UsageError
from tests.compaction.networks import build, drop_neurons, prune_at_random, trained


def same(model: nn.Module, small: nn.Module, *shape: int) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        expected, found = model(x), small(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_lenet_300_100() -> None:
    torch.manual_seed(0)
    layers = OrderedDict(
        fc1=nn.Linear(784, 300), a=nn.ReLU(), fc2=nn.Linear(300, 100), b=nn.ReLU(), fc3=nn.Linear(100, 10)
    )
    model = prune_at_random(trained(nn.Sequential(layers)), 0.99)
    before = copy.deepcopy(model.state_dict())
    done = compact(model, torch.randn(1, 784))
    small: Any = done.module
    same(model, small, 5, 784)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    fc1, fc2 = small.get_submodule("fc1"), small.get_submodule("fc2")
    assert isinstance(fc1, nn.Linear)
    assert fc1.out_features == fc2.in_features == len(fc1.weight) < 60
    assert done.after.bytes == sum(tensor.nbytes for tensor in small.state_dict().values())
    assert done.after.flops == sum(layer.flops_after for layer in done.layers) < done.before.flops / 5


def test_depthwise_convolutions_keep_groups() -> None:
    model: Any
    model, example = build("inverted")
    with torch.no_grad():
        for row in (0, 3, 7):
            model.project.weight[:, row] = 0
            model.squeeze.weight[:, row] = 0
    small: Any = compact(model, example).module
    assert (small.depthwise.groups, small.depthwise.in_channels, small.depthwise.out_channels) == (15, 15, 15)
    same(model, small, 2, 3, 8, 8)


def test_training_continues_with_batch_norm() -> None:
    model, example = build("residual")
    small: Any = compact(drop_neurons(model), example).module
    same(model, small, 2, 3, 8, 8)
    assert all(norm.num_features == len(norm.running_mean) for norm in small.norms)
    small.train()(torch.randn(4, 3, 8, 8)).sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in small.parameters())


def test_torch_prune_masks() -> None:
    torch.manual_seed(0)
    model: Any = trained(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
    mask = torch.ones(3, 8)
    mask[:, [2, 5]] = 0
    prune.custom_from_mask(model[2], "weight", mask)  # type: ignore[no-untyped-call]
    done = compact(model, torch.randn(1, 6))
    small: Any = done.module
    same(model, small, 4, 6)
    assert {x.name: x.after for x in done.layers}["0"] == (6, 6)
    assert {name: tuple(t.shape) for name, t in small.state_dict().items()}["2.weight"] == (3, 6)
    assert "2.weight_mask" not in small.state_dict()


class Stubborn(nn.Module):
    """Has the width of its first layer in its code."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)).reshape(-1, 6))  # type: ignore[no-any-return]


def test_sizes_in_code_are_an_error() -> None:
    torch.manual_seed(0)
    model = Stubborn()
    with torch.no_grad():
        model.b.weight[:, :2] = 0
    with pytest.raises(UsageError, match=r"its code contains their sizes .*output=FILE\.onnx"):
        compact(model, torch.randn(3, 4))
