"""A small network, pruned in the middle of training, and what must hold for it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from effsparse_cli import analyze, prune

INPUTS, STEPS = 20, 200
Optimize = Callable[[nn.Module], torch.optim.Optimizer]
SGD: Optimize = lambda model: torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-2)  # noqa: E731
ADAMW: Optimize = lambda model: torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)  # noqa: E731


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(INPUTS, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 5))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, seed: int = 1) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x = torch.randn(8, INPUTS, generator=generator)
        optimizer.zero_grad()
        (model(x) - x[:, :5].sin()).square().mean().backward()
        optimizer.step()


def prune_to_zeros(model: nn.Module) -> Any:
    """Prune a model whose optimizer has momentum for every weight, as in the middle of training."""
    return prune(model, torch.zeros(1, INPUTS), 0.9, form="zeros")


def nonzero(model: nn.Module) -> list[int]:
    return [int(each.count_nonzero()) for each in model.parameters() if each.ndim > 1]


def assert_held(model: nn.Module, kept: int) -> None:
    totals = analyze(model, torch.zeros(1, INPUTS)).totals
    assert totals.kept == totals.active == kept
