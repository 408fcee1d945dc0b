"""Fixed masks: from the initial weights, or from trained ones with the initial weights restored."""

from __future__ import annotations

import torch

from effsparse_cli.study.experiment import plan_phases, prepare
from effsparse_cli.study.training.loop import train
from tests.study.tiny import make_task


def test_trained_weights_choose_the_masks_and_initial_ones_are_trained() -> None:
    experiment = prepare(make_task("magnitude", 5, lsq="global", when="trained"))
    initial = experiment.network.state()
    dense, pruned = plan_phases(experiment)
    train(experiment, [dense], lambda due: None, lambda done, total: None)
    trained = torch.cat([weight.detach().abs().flatten() for weight in experiment.network.weights.values()])
    pruned.start(experiment)
    kept = torch.cat([mask.flatten() for mask in experiment.network.masks.values()])
    assert trained[kept].min() >= trained[~kept].max()
    for layer, name in experiment.network.parameters.items():
        expected = torch.where(experiment.network.masks[layer], initial[name], torch.zeros(()))
        assert torch.equal(experiment.network.weights[layer], expected)
    norm = experiment.network.module.state_dict()["2.running_mean"]
    assert torch.equal(norm, initial["2.running_mean"])


def test_initial_weights_choose_the_masks() -> None:
    experiment = prepare(make_task("magnitude", 5, lsq="global"))
    initial = torch.cat([weight.detach().abs().flatten() for weight in experiment.network.weights.values()])
    (phase,) = plan_phases(experiment)
    phase.start(experiment)
    kept = torch.cat([mask.flatten() for mask in experiment.network.masks.values()])
    assert initial[kept].min() >= initial[~kept].max()


def test_dense_networks_keep_everything() -> None:
    experiment = prepare(make_task("dense", 1))
    (phase,) = plan_phases(experiment)
    train(experiment, [phase], lambda due: None, lambda done, total: None)
    assert all(bool(mask.all()) for mask in experiment.network.masks.values())
    assert not experiment.held
