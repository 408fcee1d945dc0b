"""One model gets the same masks in every format: torch, and ONNX from both exporters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.torch import from_module
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.layouts import find_layouts
from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.plan import PrunePlan


class Recurrent(nn.Module):
    def __init__(self, cell: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.cell, self.head = cell(6, 8, num_layers=2, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.cell(x)[0][:, -1])
        return result


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.depthwise, self.pointwise = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.stem(x)).relu()
        result: torch.Tensor = self.head((x + self.pointwise(self.depthwise(x))).mean((2, 3)))
        return result


def attention() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Linear(16, 2))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "lstm": (lambda: Recurrent(nn.LSTM), (1, 4, 6)),
    "gru": (lambda: Recurrent(nn.GRU), (1, 4, 6)),
    "rnn": (lambda: Recurrent(nn.RNN), (1, 4, 6)),
    "residual": (Residual, (1, 3, 8, 8)),
    "attention": (attention, (1, 4, 6)),
}


def masks(graph: Graph, method: str, lsq: str) -> list[Bools]:
    """Return masks in the order of the graph and in canonical layouts: names and shapes differ between files."""
    pruned, layouts = (
        prune_graph(graph, PrunePlan(target=Fraction(9, 10), method=method, lsq=lsq, seed=3)),
        find_layouts(graph),
    )
    return [layouts[name].read(np.asarray(mask)) for name, mask in pruned.masks.items()]


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", MODELS)
def test_torch_and_onnx(name: str, exporter: str, tmp_path: Path) -> None:
    make, shape = MODELS[name]
    torch.manual_seed(1)
    model, example = make().eval(), torch.zeros(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (example,), tmp_path / "m.onnx", dynamo=exporter == "dynamo", verbose=False)
    ours, theirs = from_module(model, (example,), None, LoadOptions()), load(tmp_path / "m.onnx", LoadOptions())
    for method, lsq in (("random", "igq"), ("random", "global"), ("magnitude", "erk"), ("lamp", "")):
        for a, b in zip(masks(ours, method, lsq), masks(theirs, method, lsq), strict=True):
            np.testing.assert_array_equal(a, b)
