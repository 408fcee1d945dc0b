"""Pruning networks of experiments: step by step to an exact number of connections."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from effsparse_cli.pruning.plan import PrunePlan
from effsparse_cli.study.data import read_data
from effsparse_cli.study.network import Network
from effsparse_cli.study.prune import add_gradients, prune_by_plan, target_of
from tests.study.tiny import mlp


def make_network() -> Network:
    torch.manual_seed(0)
    return Network(mlp(), (1, 8, 8), torch.device("cpu"))


def test_compressions_are_exact() -> None:
    assert 1 - target_of(0.1 + 0.2 + 0.7) == 1
    assert [1984 * (1 - target_of(each)) for each in (2, 8.0, 1e3)] == [992, 248, pytest.approx(1.984)]


def test_a_layer_that_has_too_few_is_made_up_for() -> None:
    network = make_network()
    last = np.zeros((4, 16), bool)
    last[0, :3] = True
    network.apply({"7": last})
    before = network.kept()
    sizes = {name: weight.detach().abs() for name, weight in network.weights.items()}
    # Uniform would keep a quarter of every layer, 16 in the last one, which has only 3.
    found = prune_by_plan(network, PrunePlan(target=target_of(4), lsq="uniform", direct=True, from_masks=True))
    kept = {name: int(mask.sum()) for name, mask in network.masks.items()}
    assert sum(kept.values()) == found.kept == found.wanted == 496
    assert kept["7"] == 3
    assert not found.notes
    for name, mask in network.masks.items():
        assert not (mask.numpy() & ~before[name]).any()
        lost = torch.from_numpy(before[name]) & ~mask
        assert not lost.any() or sizes[name][mask].min() >= sizes[name][lost].max()


@pytest.mark.parametrize(
    ("samples", "batch", "sizes"), [(None, 128, [40]), (50, 16, [13, 13, 12, 12]), (96, 95, [48, 48])]
)
def test_gradients_are_taken_over_batches_of_the_recipe(samples: int | None, batch: int, sizes: list[int]) -> None:
    """Ten examples of each class by default, each one once."""
    data = read_data({"kind": "code", "path": "tests.study.tiny:datasets"})
    plan = PrunePlan(target=target_of(4), method="snip")
    network = make_network()
    read: list[int] = []
    network.module.register_forward_pre_hook(lambda module, inputs: read.append(len(inputs[0])))
    gradients = add_gradients(plan, network, data, samples=samples, batch=batch).gradients
    assert gradients is not None
    gradients.of_loss({})
    assert read == sizes


@pytest.mark.parametrize("lsq", ["uniform", "erk", "igq"])
def test_small_steps_lose_nothing_to_rounding(lsq: str) -> None:
    network = make_network()
    for kept in range(120, 80, -1):
        plan = PrunePlan(target=1 - Fraction(kept, 1984), lsq=lsq, direct=True, from_masks=True)
        assert prune_by_plan(network, plan).kept == kept
