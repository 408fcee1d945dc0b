"""Positions against autograd: with positive weights, a value is live where it is not zero, and relevant where its
gradient is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.pictures.picture import Positions
from tests.analysis.networks import MODULES, graph_of, module_graph


def witness(model: nn.Sequential, example: Tensor) -> dict[str, Tensor]:
    """Return how many channels are live and relevant, by position of the output of each convolution."""
    outputs: dict[str, Tensor] = {}
    x = torch.ones_like(example)
    for name, module in model.named_children():
        x = module(x)
        if x.requires_grad and isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose2d):
            x.retain_grad()
            outputs[name] = x
    torch.autograd.backward(x.sum())
    alive = {name: (y > 0) & (y.grad > 0) for name, y in outputs.items() if y.grad is not None}
    return {name: truth.any(dim=0).sum(dim=0) for name, truth in alive.items()}


def positive(*modules: nn.Module, density: float, seed: int) -> nn.Sequential:
    model, random = nn.Sequential(*modules), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((torch.rand(parameter.shape, generator=random) < density).double())
    return model.double()


def check(positions: Positions, counts: Tensor) -> None:
    assert (positions.height, positions.width) == (counts[..., 0].numel(), counts.shape[-1])
    whole, (high, wide) = counts.reshape(positions.height, positions.width), positions.cell
    tops, lefts = range(0, positions.height, high), range(0, positions.width, wide)
    expected = [[int(whole[top : top + high, left : left + wide].sum()) for left in lefts] for top in tops]
    assert positions.counts.tolist() == expected
    assert max(positions.counts.shape) <= 64


NETWORKS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "line": (lambda: [nn.Conv1d(2, 5, 3, 2, bias=False), nn.Conv1d(5, 3, 3, padding=2, bias=False)], (1, 2, 150)),
    "map": (
        lambda: [
            nn.Conv2d(2, 6, 3, padding=2, bias=False),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 4, 3, 2, groups=2, bias=False),
            nn.Conv2d(4, 2, (3, 1), bias=False),
        ],
        (1, 2, 15, 13),
    ),
    "volume": (lambda: [nn.Conv3d(2, 4, 3, bias=False), nn.Conv3d(4, 3, 2, 2, bias=False)], (2, 2, 6, 5, 7)),
    "flat": (
        lambda: [nn.Conv2d(1, 3, 3, padding=1, bias=False), nn.Flatten(), nn.Linear(3 * 70 * 66, 2, bias=False)],
        (1, 1, 70, 66),
    ),
    "up": (lambda: [nn.ConvTranspose2d(3, 4, 2, 3, bias=False), nn.Conv2d(4, 2, 2, bias=False)], (1, 3, 4, 5)),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("name", NETWORKS)
def test_positions(name: str, density: float, seed: int) -> None:
    build, shape = NETWORKS[name]
    model, example = positive(*build(), density=density, seed=seed), torch.zeros(shape, dtype=torch.float64)
    pictures = analyze_graph(graph_of(model, example), pictures=True).pictures
    expected = witness(model, example)
    assert {layer for layer, picture in pictures.items() if picture.positions} == expected.keys()
    for layer, counts in expected.items():
        positions = pictures[layer].positions
        assert positions is not None
        check(positions, counts)


@pytest.mark.parametrize("name", ["linear", "shared", "sequence", "tied"])
def test_no_positions(name: str) -> None:
    """Of a linear layer, and of a convolution that is used twice."""
    assert name in MODULES
    assert not any(
        picture.positions for picture in analyze_graph(module_graph(name, 1.0), pictures=True).pictures.values()
    )


def test_no_positions_without_a_map() -> None:
    graph = graph_of(nn.Conv2d(2, 3, 4), torch.zeros(1, 2, 4, 4))
    (picture,) = analyze_graph(graph, pictures=True).pictures.values()
    assert picture.positions is None
