"""The bottleneck pass in torch gives the numbers of the one in numpy, on any graph and in both precisions."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths.bottleneck.scores import Scores, find_bottlenecks
from effsparse_cli.pruning.curve import find_curve
from effsparse_cli.pruning.execute import prune_graph
from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.pruning.ranking import rank
from tests.paths.bottleneck.test_scores import scored
from tests.pruning import models
from tests.witnesses.graphs import graphs

filled = cache(models.filled)
TORCH = "cpu:0"
"""The CPU as torch has it: "cpu" alone is numpy."""


def compare(graph: Graph, scores: dict[str, Scores], device: str = TORCH) -> None:
    expected, found = find_bottlenecks(graph, scores), find_bottlenecks(graph, scores, device)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graphs(), st.integers(0, 9), st.sampled_from([np.float32, np.float64]))
def test_equal_on_any_graph(graph: Graph, seed: int, width: type[np.float32 | np.float64]) -> None:
    compare(graph, {name: array.astype(width) for name, array in scored(graph, seed).items()})


@pytest.mark.parametrize(("method", "lsq"), [("magnitude", "global"), ("random", "igq")])
@pytest.mark.parametrize("name", models.SAMPLES)
def test_equal_on_sample_models(name: str, method: str, lsq: str) -> None:
    compare(filled(name), rank(filled(name), PrunePlan(target=Fraction(0), method=method, lsq=lsq)).scores)


@pytest.mark.parametrize("name", models.SAMPLES)
def test_pruning_is_the_same_on_every_device(name: str) -> None:
    here, there = (
        prune_graph(filled(name), PrunePlan(target=Fraction("0.97"), device=device)) for device in ("cpu", TORCH)
    )
    assert here.threshold == there.threshold
    assert all((here.masks[layer] == there.masks[layer]).all() for layer in here.masks)
    assert find_curve(filled(name), PrunePlan(target=Fraction(0)), 5) == find_curve(
        filled(name), PrunePlan(target=Fraction(0), device=TORCH), 5
    )


def test_an_absent_device_is_a_clear_error() -> None:
    for method in ("magnitude", "synflow"):
        with pytest.raises(UsageError, match="--device xpu:9 cannot be used here"):
            prune_graph(filled("figure1"), PrunePlan(target=Fraction("0.5"), method=method, rounds=2, device="xpu:9"))


if torch.cuda.is_available():

    @pytest.mark.parametrize("name", models.SAMPLES)
    def test_equal_on_a_gpu(name: str) -> None:
        compare(
            filled(name), rank(filled(name), PrunePlan(target=Fraction(0), method="random", lsq="igq")).scores, "cuda"
        )
