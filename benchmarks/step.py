"""The cost of a second analysis of a live model as a fraction of one training step: ResNet-50, a batch of 32 at
224x224."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils import prune as torch_prune

from benchmarks.clock import Spread, ratio, rounds
from benchmarks.models import CASES, Case
from effsparse_cli import analyze

BATCH = 32


@dataclass(frozen=True)
class Step:
    """`plain`: zeros in the weights; `masked`: every layer has a mask of torch.nn.utils.prune."""

    model: str
    batch: int
    plain: Spread
    masked: Spread


def measure(key: str = "resnet50", batch: int = BATCH, repeats: int = 3) -> Step:
    case = CASES[key]
    plain = _ratio(case, case.build(), batch, repeats)
    masked = case.build()
    for module in masked.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            torch_prune.random_unstructured(module, "weight", 0.9)  # type: ignore[no-untyped-call]
    return Step(case.name, batch, plain, _ratio(case, masked, batch, repeats))


def _ratio(case: Case, model: nn.Module, batch: int, repeats: int) -> Spread:
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.001, momentum=0.9)
    images = torch.randn(batch, *case.shape[1:])

    def step() -> None:
        optimizer.zero_grad()
        model(images).sum().backward()
        optimizer.step()

    taken = rounds({"step": step, "analyze": lambda: analyze(model, case.example)}, repeats, float("inf"))
    return ratio(taken["analyze"], taken["step"])
