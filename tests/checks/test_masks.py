"""EFF010 checks masks, but not other parametrizations that keep a zero."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.checks.rule import Subject
from effsparse_cli.checks.rules.masks import check
from effsparse_cli.checks.settings import Settings
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from tests.formats.torch.conventions.models import prune


def findings(module: nn.Module, **settings: Any) -> list[str]:
    graph = from_module(module, (torch.zeros(1, 4),), None, LoadOptions())
    return [finding.message for finding in check(Subject(graph, analyze_graph(graph), Settings(**settings)))]


def test_a_parametrization_that_maps_zero_to_nonzero_is_not_a_mask() -> None:
    class Shifted(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight + 1

    layer = nn.Linear(4, 4)
    nn.init.zeros_(layer.weight)
    nn.utils.parametrize.register_parametrization(layer, "weight", Shifted())
    assert findings(layer, strict_masks=True) == []


def test_masks_that_disagree_with_their_weights() -> None:
    layer = nn.Linear(4, 4)
    nn.init.ones_(layer.weight)
    with torch.no_grad():
        layer.weight[0, 0] = 0
    mask = torch.ones(4, 4)
    mask[1] = 0
    prune.custom_from_mask(layer, "weight", mask)
    assert findings(layer) == ["the mask keeps 12 connections, but 1 of them is zero"]
    assert findings(layer, strict_masks=True)[1:] == ["4 weights under a zero mask are not zero"]
