"""A small data set and small models for experiments that take a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from effsparse_cli.study.experiment import run_experiment
from effsparse_cli.study.task import StudyTask

Pair = tuple[torch.Tensor, torch.Tensor]
STEPS = 6
"""Steps in an epoch of the usual task."""


def datasets() -> tuple[Pair, Pair]:
    """Return noisy images of four classes: 96 to train on, 40 to test with."""
    draws = torch.Generator().manual_seed(0)
    patterns = torch.randn(4, 1, 8, 8, generator=draws)

    def make(count: int) -> Pair:
        labels = torch.arange(count) % 4
        return patterns[labels] + 0.5 * torch.randn(count, 1, 8, 8, generator=draws), labels

    return make(96), make(40)


def mlp(num_classes: int = 4) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 24),
        nn.BatchNorm1d(24),
        nn.ReLU(),
        nn.Linear(24, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Linear(16, num_classes),
    )


def convnet(num_classes: int = 4) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, num_classes),
    )


def with_dropout(num_classes: int = 4) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.Dropout(0.5), nn.ReLU(), nn.Linear(24, num_classes))


def drops_by_function(num_classes: int = 4) -> nn.Module:
    class Model(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self[1](nn.functional.dropout(self[0](x.flatten(1)), training=self.training))
            return out

    return Model(nn.Linear(64, 24), nn.Linear(24, num_classes))


class Residual(nn.Module):
    """Its branch begins with a zero scale, and its last layer with zero weights."""

    def __init__(self, num_classes: int = 4) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(64, 24), nn.BatchNorm1d(24)
        self.branch, self.last = nn.Linear(24, 24), nn.BatchNorm1d(24)
        self.scale = nn.Parameter(torch.zeros(()))
        self.head = nn.Linear(24, num_classes)
        for zero in (self.last.weight, self.head.weight):
            nn.init.zeros_(zero)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x.flatten(1))))
        y = self.last(self.branch(x))
        out: torch.Tensor = self.head(x + y + self.scale * torch.relu(y))
        return out


def make_task(method: str, compression: float = 10, **changes: Any) -> StudyTask:
    """Return a task on the small data set, with changes of its fields or of its recipe."""
    recipe = {"epochs": 3, "drops": [2], "batch": 16, "lr": 0.05, "decay": 5e-4}
    recipe |= {name: changes.pop(name) for name in [*changes] if name in {*recipe, "augment", "momentum", "device"}}
    fields: dict[str, Any] = {
        "model": f"{__name__}:mlp",
        "data": {"kind": "code", "path": f"{__name__}:datasets"},
        "lsq": "",
        "effective": False,
        "when": "training" if method in ("gmp", "imp", "set", "rigl", "cs") else "init",
        "seed": 0,
        "options": {},
    }
    return StudyTask(method=method, compression=compression, recipe=recipe, **(fields | changes))


def run(task: StudyTask, folder: Path) -> dict[str, Any]:
    return run_experiment(task, folder, lambda done, total: None)
