"""Small models to prune, and what their resolved checkpoints keep."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.conventions.resolve import resolve
from effsparse_cli.formats.torch.tensors import nonzero

prune: Any = importlib.import_module("torch.nn.utils.prune")
"""Imported as a value, because the module is not typed."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(16, 12)


def net() -> Any:
    torch.manual_seed(1)
    return Net()


def chain() -> Any:
    """Return a model for checkpoints without a graph."""
    return nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 8))


def a_mask(*shape: int, density: float = 0.3) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(2)) < density


def resolved(state: Mapping[str, torch.Tensor], **options: Any) -> Checkpoint:
    return resolve(Checkpoint(dict(state)), **options)


def kept(checkpoint: Checkpoint, name: str) -> Any:
    """Return what is kept of a tensor: its mask, or else its non-zero values."""
    if name in checkpoint.masks:
        found = checkpoint.masks[name]()
    elif name in checkpoint.values:
        found = nonzero(checkpoint.values[name]())
    else:
        found = nonzero(checkpoint.tensors[name])
    assert found.dtype == bool
    assert found.shape == tuple(checkpoint.tensors[name].shape)
    return found
