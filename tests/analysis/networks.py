"""Graphs for tests of pictures and networks: torch networks with every kind of layer, and generated ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from effsparse_cli.formats import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph


class Shared(nn.Module):
    """One convolution at two places, of which the second sees a smaller map."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(nn.functional.max_pool2d(torch.relu(self.conv(x)), 2))
        return y


class Stored(nn.Module):
    """A matrix that is stored transposed, as in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 7))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 5)
        self.fc = nn.Linear(5, 5)

    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.linear(torch.relu(self.fc(self.table(ids))), self.table.weight)


class Sequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, bidirectional=True)
        self.attention = nn.MultiheadAttention(8, 2)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x, _ = self.lstm(x)
        y: Tensor = self.head(x + self.attention(x, x, x, need_weights=False)[0])
        return y


def _mixed() -> nn.Module:
    return nn.Sequential(weight_norm(nn.Linear(6, 5)), nn.ReLU(), spectral_norm(nn.Linear(5, 4)))


MODULES: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3)), torch.zeros(2, 6)),
    "conv1d": (
        lambda: nn.Sequential(nn.Conv1d(2, 6, 5, padding=2), nn.Conv1d(6, 4, 3, groups=2)),
        torch.zeros(1, 2, 9),
    ),
    "conv2d": (lambda: nn.Sequential(nn.Conv2d(3, 6, (3, 2), padding=2), nn.Conv2d(6, 4, 3)), torch.zeros(1, 3, 5, 4)),
    "conv3d": (lambda: nn.Sequential(nn.Conv3d(2, 3, (2, 3, 1), padding=1), nn.ReLU()), torch.zeros(1, 2, 3, 3, 3)),
    "grouped": (
        lambda: nn.Sequential(nn.Conv2d(4, 8, 3, groups=4), nn.Conv2d(8, 8, 1, groups=8)),
        torch.zeros(1, 4, 4, 4),
    ),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3, 2, groups=2), nn.ConvTranspose2d(6, 2, 2)),
        torch.zeros(1, 4, 3, 3),
    ),
    "shared": (Shared, torch.zeros(1, 4, 4, 4)),
    "stored transposed": (lambda: nn.Sequential(Stored(), nn.ReLU(), nn.Linear(7, 2)), torch.zeros(3, 5)),
    "tied": (Tied, torch.zeros(1, 3, dtype=torch.long)),
    "sequence": (Sequence, torch.zeros(5, 1, 3)),
    "mixed": (_mixed, torch.zeros(1, 6)),
}


def prune(model: nn.Module, density: float, seed: int = 0) -> nn.Module:
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(torch.rand(parameter.shape, generator=random) < density)
    return model


def graph_of(model: nn.Module, example: Any) -> Graph:
    inputs = example if isinstance(example, tuple) else (example,)
    return from_module(model.eval(), inputs, None, LoadOptions())


def module_graph(name: str, density: float, seed: int = 0) -> Graph:
    build, example = MODULES[name]
    return graph_of(prune(build(), density, seed), example)
