"""Prune a live model to any sparsity, at random and uniformly, again and again: its graph reads the weights late and
need not be rebuilt. Masks are nested, so a higher sparsity never reconnects a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.formats import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.graph.graph import Graph

BISECTIONS = 10
DRAWS = (1 << 24) + 43
"""Maximum of random numbers per tensor. A larger tensor repeats them, to be ready within seconds."""


@dataclass(frozen=True)
class Subject:
    """`weights` are the live tensors of the graph's layers, by their names in the model."""

    model: nn.Module
    graph: Graph
    weights: Mapping[str, torch.Tensor]


def subject(model: nn.Module, example: torch.Tensor) -> Subject:
    model.eval().requires_grad_(False)
    graph = from_module(model, (example,), None, LoadOptions())
    stored = stored_tensors(model)
    names = [name if name in stored else f"{name}.weight" for name in graph.layers]
    return Subject(model, graph, {name: stored[name] for name in names})


def prune(weights: Sequence[torch.Tensor], sparsity: float) -> None:
    """Set kept weights to one and the others to zero."""
    for i, weight in enumerate(weights):
        draws = torch.rand(min(weight.numel(), DRAWS), generator=torch.Generator().manual_seed(i))
        kept = (draws >= sparsity).to(weight.dtype)
        flat = weight.view(-1)
        for start in range(0, len(flat), DRAWS):
            flat[start : start + DRAWS] = kept[: len(flat) - start]


def edge(thing: Subject) -> float:
    """Return the highest sparsity at which the model is connected, by bisection of the number of nines."""
    low, high = 0.0, 12.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        prune(list(thing.weights.values()), nines(middle))
        low, high = (low, middle) if analyze_graph(thing.graph).disconnected else (middle, high)
    return nines(low)


def nines(count: float) -> float:
    return -math.expm1(-count * math.log(10))
