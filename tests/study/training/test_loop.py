"""The training loop: learning rates, the order of examples, and steps that a phase takes the place of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from effsparse_cli.study.data.batches import generator, plain_batches, training_batch
from effsparse_cli.study.experiment import plan_phases, prepare
from effsparse_cli.study.run import Run
from effsparse_cli.study.task import StudyTask
from effsparse_cli.study.training import loop
from tests.study.tiny import STEPS, make_task


def train(task: StudyTask) -> Run:
    run = prepare(task)
    loop.train(run, plan_phases(run), lambda due: None, lambda done, total: None)
    return run


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The positions of the examples of every training step."""
    seen: list[torch.Tensor] = []

    def record(data: Any, positions: torch.Tensor, *rest: Any) -> Any:
        seen.append(positions)
        return training_batch(data, positions, *rest)

    monkeypatch.setattr(loop, "training_batch", record)
    return seen


def test_learning_rates_follow_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.SGD.step

    def record(self: torch.optim.SGD, *rest: Any) -> Any:
        rates.extend(group["lr"] for group in self.param_groups)
        return step(self, *rest)

    monkeypatch.setattr(torch.optim.SGD, "step", record)
    train(make_task("dense", 1, epochs=4, lr=0.05, drops=[1, 3]))
    assert rates == pytest.approx([0.05] * STEPS + [0.005] * 2 * STEPS + [0.0005] * STEPS)


def test_every_epoch_has_all_examples_in_another_order(batches: list[torch.Tensor]) -> None:
    train(make_task("dense", 1, epochs=2))
    epochs = torch.cat(batches[:STEPS]), torch.cat(batches[STEPS:])
    assert all(sorted(each.tolist()) == list(range(96)) for each in epochs)
    assert not torch.equal(*epochs)


def test_phases_and_seeds_have_their_own_order(batches: list[torch.Tensor]) -> None:
    train(make_task("lamp", when="trained", epochs=1))
    train(make_task("dense", 1, epochs=1, seed=1))
    orders = {tuple(torch.cat(batches[i : i + STEPS]).tolist()) for i in range(0, len(batches), STEPS)}
    assert len(orders) == 3


def test_networks_see_the_same_numbers_in_training_and_evaluation() -> None:
    data = prepare(make_task("dense", 1)).data
    trained = training_batch(data, torch.arange(96), (), generator("draws"))
    ((evaluated, labels),) = plain_batches(data, data.train, 96)
    assert torch.equal(trained[0], evaluated)
    assert torch.equal(trained[1], labels)
    assert abs(float(evaluated.mean())) < 1e-4
    assert float(evaluated.std()) == pytest.approx(1, abs=1e-3)


def test_rigl_does_not_train_in_the_steps_that_replace_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    step = torch.optim.SGD.step

    def record(self: torch.optim.SGD, *rest: Any) -> Any:
        steps.append(1)
        return step(self, *rest)

    monkeypatch.setattr(torch.optim.SGD, "step", record)
    train(make_task("rigl", 8, options={"every": 4, "end": 1.0}))
    assert len(steps) == 3 * STEPS - 4  # connections are replaced at steps 4, 8, 12 and 16


def test_pruned_weights_do_not_move_and_others_decay() -> None:
    """Without gradients, weight decay alone shrinks what is kept."""
    task = make_task("random", 4, epochs=1, lr=0.1, decay=0.1, momentum=0.0)
    run = prepare(task)
    plan_phases(run)[0].start(run)
    run.start_optimizer()
    before = {name: weight.detach().clone() for name, weight in run.network.weights.items()}
    for parameter in run.module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    assert run.optimizer is not None
    run.optimizer.step()
    for name, weight in run.network.weights.items():
        assert torch.allclose(weight, 0.99 * before[name])
        assert not weight[~run.network.masks[name]].any()
