"""Results print as tables, are short in a console, and convert to dicts, JSON, data frames and HTML."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
import torch
from torch import nn

import effsparse

X = torch.zeros(1, 8)


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("a<blink>", nn.Linear(8, 6))
    model.add_module("act", nn.ReLU())
    model.add_module("last", nn.Linear(6, 4))
    with torch.no_grad():
        model.get_parameter("last.weight")[:, :3] = 0
    return model


RESULTS: dict[str, tuple[Callable[[], Any], int]] = {
    "analyze": (lambda: effsparse.analyze(network(), X), 2),
    "prune": (lambda: effsparse.prune(network(), X, 0.6), 2),
    "repair": (lambda: effsparse.repair(network(), X), 2),
    "compact": (lambda: effsparse.compact(network(), X), 2),
    "quotas": (lambda: effsparse.quotas(network(), X, 0.5), 2),
    "curve": (lambda: effsparse.curve(network(), X, points=3), 3),
    "diff": (lambda: effsparse.diff(network(), network(), X), 2),
    "check": (lambda: effsparse.check(network(), X), 1),
}


class Cells(HTMLParser):
    """Counts rows, and notes every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)


@pytest.mark.parametrize("name", RESULTS)
def test_every_result(name: str) -> None:
    make, rows = RESULTS[name]
    result = make()
    assert len(repr(result)) < 120
    assert "\n" in str(result)
    assert "--" not in str(result), "arguments, not options"
    assert result.to_dict()["schema_version"] == 1
    assert len(result.to_frame()) == rows
    parser = Cells()
    parser.feed(result._repr_html_())
    assert "blink" not in parser.tags, "names are text"
    assert parser.tags.count("tr") >= 2


def test_values_to_log() -> None:
    report = effsparse.analyze(network(), X)
    assert set(report.log_dict(per_layer=False)) == {"sparsity/direct_sparsity", "sparsity/effective_sparsity"}
    assert report.log_dict("")["effective_sparsity/last"] == report.layers["last"].effective_sparsity == 0.5
