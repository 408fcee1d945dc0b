"""Graphs to prune: the sample models with their zeros filled, and LeNet-300-100 at initialization."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from effsparse_cli.formats import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from sample_models.make import MODELS, build

SAMPLES = tuple(Path(name).stem for name in MODELS)


def filled(name: str) -> Graph:
    """Return a sample model with random values in place of zeros, so that there is something to prune."""
    file = next(file for file in MODELS if Path(file).stem == name)
    model = build(file)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                drawn = torch.randn(parameter.shape, generator=generator) / parameter[0].numel() ** 0.5
                parameter.copy_(torch.where(parameter == 0, drawn, parameter))
    return from_module(model, (MODELS[file][1],), None, LoadOptions())


def lenet_300_100() -> Graph:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))
    return from_module(model, (torch.zeros(1, 784),), None, LoadOptions())
