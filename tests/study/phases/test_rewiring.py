"""SET and RigL: the schedule of the paper, layerwise counts that never change, and where connections grow."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from effsparse_cli.study.experiment import plan_phases, prepare
from effsparse_cli.study.phases import rewiring
from effsparse_cli.study.phases.rewiring import drop_fraction, rewire
from effsparse_cli.study.run import Run
from effsparse_cli.study.training.loop import train
from tests.study.tiny import make_task, run


def test_cosine_of_the_paper() -> None:
    """f_decay(t) = alpha / 2 (1 + cos(t pi / T_end))."""
    assert drop_fraction(0, 0.3, 25_000) == pytest.approx(0.3)
    assert drop_fraction(12_500, 0.3, 25_000) == pytest.approx(0.15)
    assert drop_fraction(6_250, 0.3, 25_000) == pytest.approx(0.15 * (1 + math.sqrt(0.5)))
    assert drop_fraction(25_000, 0.3, 25_000) == pytest.approx(0)


@pytest.mark.parametrize("method", ["set", "rigl"])
@pytest.mark.parametrize("lsq", ["", "uniform", "igq"])
def test_layers_keep_their_counts(method: str, lsq: str) -> None:
    experiment = prepare(make_task(method, 8, lsq=lsq, options={"every": 2}))
    (phase,) = plan_phases(experiment)
    counts, masks = [], []

    def record(due: bool) -> None:
        counts.append({name: int(mask.sum()) for name, mask in experiment.network.masks.items()})
        masks.append(torch.cat([mask.flatten() for mask in experiment.network.masks.values()]))
        weights = torch.cat([w.detach().flatten() for w in experiment.network.weights.values()])
        assert not weights[~masks[-1]].any()

    train(experiment, [phase], record, lambda done, total: None)
    assert all(each == counts[0] for each in counts)
    assert abs(sum(counts[0].values()) - 1984 / 8) <= 1
    changes = sum(not torch.equal(one, other) for one, other in pairwise(masks))
    # RigL stops at three quarters of 18 steps: at steps 2, 4, ..., 12. SET goes on to step 16.
    assert changes == (6 if method == "rigl" else 8)


def gradients(experiment: Run) -> dict[str, torch.Tensor]:
    """Give every weight a gradient, drawn at random."""
    for layer, weight in experiment.network.weights.items():
        weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(layer)))
    return {layer: weight.grad for layer, weight in experiment.network.weights.items() if weight.grad is not None}


def test_rigl_drops_small_weights_and_grows_large_gradients() -> None:
    experiment = prepare(make_task("rigl", 4, lsq="uniform"))
    (phase,) = plan_phases(experiment)
    phase.start(experiment)
    found = gradients(experiment)
    before = {name: mask.clone() for name, mask in experiment.network.masks.items()}
    weights = {name: w.detach().clone() for name, w in experiment.network.weights.items()}
    rewire(experiment, partial(rewiring._smallest, 0.5), rewiring._gradient, 1)
    for name, mask in experiment.network.masks.items():
        lost, new = before[name] & ~mask, mask & ~before[name]
        stayed = before[name] & mask
        assert int(lost.sum()) == int(new.sum()) > 0
        assert not experiment.network.weights[name][new].any()
        assert torch.equal(experiment.network.weights[name][stayed], weights[name][stayed])
        # Whatever was pruned and did not grow had a smaller gradient than everything that grew.
        assert found[name].abs()[new].min() >= found[name].abs()[~mask].max()
        kept = int(before[name].sum())
        smallest = weights[name][before[name]].abs().sort().values[: kept - kept // 2]
        assert weights[name][lost].abs().max() <= smallest.max()


@pytest.mark.parametrize(("method", "every"), [("set", 18), ("rigl", 100)])
def test_training_too_short_to_replace_connections_is_noted(tmp_path: Path, method: str, every: int) -> None:
    notes = run(make_task(method, 8, options={"every": every}), tmp_path)["notes"]
    last = {"set": 18, "rigl": 14}[method]
    assert f"due after {every} steps, but replacement ends after {last}" in notes[-1]


@pytest.mark.parametrize("method", ["set", "rigl"])
def test_layers_that_are_not_trained_keep_their_connections(method: str) -> None:
    experiment = prepare(make_task(method, 4, model="tests.study.odd:frozen", options={"every": 2}))
    (phase,) = plan_phases(experiment)
    before: dict[str, torch.Tensor] = {}

    def remember(due: bool) -> None:
        before.update({name: m.clone() for name, m in experiment.network.masks.items() if name not in before})

    train(experiment, [phase], remember, lambda done, total: None)
    changed = {name for name, mask in experiment.network.masks.items() if not torch.equal(mask, before[name])}
    assert "1" not in changed
    assert "4" in changed


def test_set_drops_the_same_share_of_each_sign() -> None:
    weights = torch.tensor([1.0, 2, 3, 4, 0, -1e-3, -2e-3, -3e-3, -4e-3, 5])
    mask = torch.ones(10, dtype=torch.bool)
    mask[4] = False
    dropped = rewiring._smallest_of_each_sign(0.5, weights, mask, 9)
    assert weights[dropped].tolist() == pytest.approx([1.0, 2, -1e-3, -2e-3])
    assert int(rewiring._smallest_of_each_sign(0.5, weights, mask, 1).sum()) == 1


def test_new_connections_have_no_momentum() -> None:
    experiment = prepare(make_task("set", 4, options={"every": 1}))
    (phase,) = plan_phases(experiment)
    train(experiment, [phase], lambda due: None, lambda done, total: None)
    gradients(experiment)
    assert experiment.optimizer is not None
    before = {name: mask.clone() for name, mask in experiment.network.masks.items()}
    rewire(experiment, partial(rewiring._smallest_of_each_sign, 0.5), rewiring._random, 99)
    for name, weight in experiment.network.weights.items():
        momentum = experiment.optimizer.state[weight]["momentum_buffer"]
        assert momentum.any()
        assert not momentum[experiment.network.masks[name] & ~before[name]].any()


def test_counts_of_a_dense_layer(tmp_path: Path) -> None:
    """ERK keeps the last layer dense here: nothing can be replaced in it."""
    result = run(make_task("rigl", 2, options={"every": 1}), tmp_path)
    assert result["layers"][-1]["kept"] == result["layers"][-1]["connections"] == 64
    assert abs(result["final"]["kept"] - 992) <= 1
