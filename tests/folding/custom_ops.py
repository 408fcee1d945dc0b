"""Custom operators, registered with torch for the tests."""

from __future__ import annotations

import torch
from torch import Tensor, nn


@torch.library.custom_op("effsparse_tests::twist", mutates_args=())
def twist(x: Tensor) -> Tensor:
    """Turn zeros into ones, and mix the last axis."""
    return torch.cos(x.flip(-1))


@twist.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("effsparse_tests::project", mutates_args=())
def project(x: Tensor, weight: Tensor) -> Tensor:
    """An operator with its own weight."""
    return torch.cos(x @ weight.T)


@project.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])


class Twist(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.effsparse_tests.twist(x)
        return found


class Acos(nn.Module):
    """acos(0) is not zero."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.acos(torch.tanh(x))


class Exp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(-x.abs())


class Beside(nn.Module):
    """`place` is where the custom operator is: after a layer ("act"), around a stored weight ("weight"), or instead of
    a layer ("layer")."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 8)
        self.c, self.d = nn.Linear(8, 8, bias=False), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        own = torch.ops.effsparse_tests
        h = torch.relu(self.a(x))
        h = own.twist(h) if self.place == "act" else h
        h = torch.sigmoid(self.b(h))
        if self.place == "weight":
            h = h @ own.twist(self.c.weight).T
        else:
            h = own.project(h, self.c.weight) if self.place == "layer" else self.c(h)
        y: Tensor = self.d(torch.relu(h))
        return y


PLACES = ("act", "weight", "layer")


def beside(place: str) -> Beside:
    torch.manual_seed(0)
    model = Beside(place).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(torch.rand(parameter.shape) < 0.3)
        model.b.weight[2] = 0
    return model
