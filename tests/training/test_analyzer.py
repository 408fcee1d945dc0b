"""`Analyzer` and repeated `analyze` agree with a fresh analysis after every change of a live network."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune as torch_prune

from effsparse_cli import Analyzer, analyze
from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.results import Analysis
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from tests.training.changes import CHANGES
from tests.training.networks import NETWORKS, Counting, Masked, Steered, convolutions


def fresh(model: nn.Module, x: torch.Tensor) -> Analysis:
    return analyze_graph(from_module(model, (x,), None, LoadOptions()), masks=True)


def same(a: Analysis, b: Analysis) -> bool:
    if any(getattr(a, each.name) != getattr(b, each.name) for each in fields(Analysis) if each.name != "active_masks"):
        return False
    return all(np.array_equal(mask, b.active_masks[name]) for name, mask in a.active_masks.items())


def follow(name: str, seed: int, changes: int) -> int:
    """Apply changes one by one and return how many of them changed the analysis."""
    torch.manual_seed(seed)
    dice = random.Random(seed)
    make, example = NETWORKS[name]
    model, x = make(), example()
    analyzer, before = Analyzer(model, x), fresh(model, x)
    moved = 0
    for _ in range(changes):
        change = dice.choice(CHANGES)
        change(model, dice)
        expected = fresh(model, x)
        assert same(analyzer(active_masks=True), expected), change.__name__
        assert same(analyze(model, x, active_masks=True), expected), change.__name__
        moved += not same(before, expected)
        before = expected
    return moved


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("seed", range(2))
def test_equals_a_fresh_analysis_after_any_change(name: str, seed: int) -> None:
    follow(name, seed, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("seed", range(100, 110))
def test_equals_a_fresh_analysis_in_long_runs(name: str, seed: int, record_property: Any) -> None:
    record_property("witness: analyses of a changing network that moved", follow(name, seed, 30))


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - {"steered"}))
def test_changed_values_do_not_trace_again(name: str) -> None:
    make, example = NETWORKS[name]
    model, x = make(), example()
    analyzer = Analyzer(model, x)
    first = analyzer()
    model(x)
    for p in model.parameters():
        p.data.zero_()
    model.train()
    assert analyzer().totals.kept < first.totals.kept
    assert analyzer.traces == 1


def test_masks_of_pruning_are_read_without_a_new_trace() -> None:
    """A forward of the pruned model stores a new weight in every pruned module; that does not change the structure."""
    model = convolutions()
    torch_prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    analyzer = Analyzer(model, torch.zeros(1, 2, 8, 8))
    analyzer()
    model(torch.zeros(1, 2, 8, 8))
    model[0].get_buffer("weight_mask").zero_()
    assert analyzer().disconnected
    assert analyzer.traces == 1


def test_a_different_shape_or_type_is_traced_again() -> None:
    model = Masked()
    analyzer = Analyzer(model, torch.zeros(1, 6))
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: setattr(model, "gate", 0.0),
        lambda: setattr(model, "first", nn.Linear(6, 6, bias=False)),
        lambda: model.listed.append(model.listed.pop().clone()),
        lambda: model.register_forward_hook(lambda *_: None),
    ]
    for traces, change in enumerate(changes, start=1):
        change()
        analyzer()
        assert analyzer.traces == traces


def test_a_forward_that_reads_values_is_traced_every_time() -> None:
    analyzer = Analyzer(Steered(), torch.zeros(1, 4))
    analyzer()
    analyzer()
    assert analyzer.traces == 2


def test_the_same_error_as_a_fresh_analysis() -> None:
    model = convolutions()
    analyzer = Analyzer(model, torch.zeros(1, 2, 8, 8))
    analyzer()
    model.double()
    with pytest.raises(UsageError, match="does not run on input 1x2x8x8"):
        analyzer()
    model.float()
    assert same(analyzer(active_masks=True), fresh(model, torch.zeros(1, 2, 8, 8)))


def test_buffers_that_a_forward_updates_are_not_changed() -> None:
    """Operators that no input reaches run again for every analysis, but not on the model's own memory."""
    model = Counting()
    analyzer = Analyzer(model, torch.zeros(1, 4))
    assert [analyzer().totals.active for _ in range(3)] == [8, 8, 8]
    assert analyzer.traces == 1
    assert model.get_buffer("runs").item() == 0


def test_an_example_input_is_required() -> None:
    with pytest.raises(UsageError, match="no example input"):
        Analyzer(convolutions(), ())


def test_analyze_notices_a_different_input() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Flatten(1), nn.LazyLinear(1))
    model(torch.zeros(1, 1, 1, 1))
    assert analyze(model, torch.zeros(1, 1, 1, 1)).totals.padding == 16
    model[2] = nn.Linear(50, 1)
    assert analyze(model, torch.zeros(1, 1, 5, 5)).totals.padding == 0


def test_an_analysed_module_is_not_kept_alive() -> None:
    model = convolutions()
    analyze(model, torch.zeros(1, 2, 8, 8))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
