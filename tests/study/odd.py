"""Models of users' own that are easy to get wrong: examples of 1x8x8, four classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from tests.study.tiny import mlp

Tensor = torch.Tensor


class Shared(nn.Module):
    """One module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.hidden, self.last = nn.Linear(64, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.again = self.hidden

    def forward(self, x: Tensor) -> Any:
        x = torch.relu(self.first(x.flatten(1)))
        return self.last(torch.relu(self.again(torch.relu(self.hidden(x)))))


class Tied(Shared):
    """Two modules with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Linear(16, 16)
        self.again.weight = self.hidden.weight


def masked() -> nn.Module:
    model = mlp()
    prune.random_unstructured(model[1], "weight", 0.5)  # type: ignore[index, no-untyped-call]
    return model


def normalized() -> nn.Module:
    return nn.Sequential(nn.Flatten(), parametrizations.weight_norm(nn.Linear(64, 12)), nn.ReLU(), nn.Linear(12, 4))


class Gated(nn.Module):
    """What a gate lets through depends on its biases, which are zero before training."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.gate, self.last = nn.Linear(64, 24), nn.Linear(64, 24), nn.Linear(24, 4)
        for layer in (self.value, self.gate, self.last):
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Any:
        x = x.flatten(1)
        return self.last(self.value(x) * self.gate(x))


class Parameterless(nn.Module):
    """It has a parameter to train, but no layer to prune."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Any:
        return x.flatten(1)[:, :4] + self.shift


def diverged() -> nn.Module:
    """Its outputs are never finite."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    nn.init.constant_(model[1].bias, torch.inf)  # type: ignore[arg-type]
    return model


class WithState(nn.Sequential):
    """Counts its calls in a state of its own."""

    kind: Any = int

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4))
        self.calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += self.training
        return super().forward(x) * (1 + 0.01 * self.calls)  # type: ignore[no-untyped-call]

    def get_extra_state(self) -> Any:
        return self.kind(self.calls)

    def set_extra_state(self, state: Any) -> None:
        self.calls = int(state)


class WithTensorState(WithState):
    kind = torch.tensor


class WithArrayState(WithState):
    kind = np.array


class WithBuffer(nn.Sequential):
    """Counts its calls in a buffer that its state_dict leaves out."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4))
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Any:
        if self.training:
            self.calls += 1
        return super().forward(x) * (1 + 0.01 * self.calls)  # type: ignore[no-untyped-call]


def frozen() -> nn.Module:
    model = mlp()
    model[1].weight.requires_grad_(False)  # type: ignore[index]
    return model


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
        self.block = nn.TransformerEncoderLayer(16, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.last(self.block(self.first(x.flatten(1, 2))).mean(1))


def compiled() -> Any:
    return torch.compile(mlp(), backend="eager")


class ByNumpy(nn.Sequential):
    """Drops values that NumPy draws."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x: Tensor) -> Any:
        hidden = self[2](self[1](self[0](x)))
        return self[3](hidden * torch.from_numpy(np.random.rand(16) > 0.5) if self.training else hidden)


class Centering(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True) if self.training else x


def centering() -> nn.Module:
    """Mixes channels in training only."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), Centering(), nn.ReLU(), nn.Linear(16, 4))


class Auxiliary(nn.Module):
    """Has a second head in training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head, self.second = nn.Linear(64, 16), nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Any:
        x = torch.relu(self.first(x.flatten(1)))
        return self.head(x) + 0.5 * self.second(x) if self.training else self.head(x)
