"""Small live networks that store masks, biases and weights in all the ways a training script may."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Masked(nn.Module):
    """Masks as a buffer, a non-persistent buffer, an attribute and in a list; numbers as attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third, self.last = (nn.Linear(6, 6) for _ in range(4))
        self.register_buffer("mask", torch.ones(6, 6))
        self.register_buffer("passing", torch.ones(6, 6), persistent=False)
        self.plain = torch.ones(6, 6)
        self.listed = [torch.ones(6, 6)]
        self.gate, self.skip = 1.0, True

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(F.linear(x, self.first.weight * self.get_buffer("mask"), self.first.bias)) * self.gate
        y = F.linear(y, self.second.weight * self.get_buffer("passing"))
        y = F.linear(y, self.third.weight * self.plain) + (x if self.skip else 0)
        return F.linear(y, self.last.weight * self.listed[0])


class Steered(nn.Module):
    """The forward branches on the values of a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = nn.Linear(4, 4), nn.Linear(4, 4)
        self.choice = torch.ones(2)

    def forward(self, x: Tensor) -> Tensor:
        far: Tensor = self.far(x) * self.choice.tolist()[0]
        near: Tensor = self.near(x)
        return near if self.choice.sum().item() > 0 else far


class Counting(nn.Module):
    """Counts its runs in a non-persistent buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 2)
        self.register_buffer("runs", torch.zeros(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.runs = self.get_buffer("runs").add_(1)
        y: Tensor = self.last(x * self.runs)
        return y


class Tokens(nn.Module):
    """Takes integers, so that the network may have any dtype; the last weight is tied to the embedding table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.norm = nn.LayerNorm(6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.out = nn.Linear(6, 7, bias=False)
        self.out.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.table(x))
        y, _ = self.attention(y, y, y)
        return self.out(y)  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(4, 3, batch_first=True)
        self.out = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cell(x)[0][:, -1])  # type: ignore[no-any-return]


def convolutions() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, groups=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "convolutions": (convolutions, lambda: torch.zeros(1, 2, 8, 8)),
    "masked": (Masked, lambda: torch.zeros(1, 6)),
    "steered": (Steered, lambda: torch.zeros(1, 4)),
    "tokens": (Tokens, lambda: torch.zeros(1, 5, dtype=torch.long)),
    "recurrent": (Recurrent, lambda: torch.zeros(1, 3, 4)),
}
