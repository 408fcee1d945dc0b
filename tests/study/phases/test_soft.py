"""Continuous sparsification: the temperature, what is learned, and exactly the number of connections asked for."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from effsparse_cli.study.experiment import plan_phases, prepare
from effsparse_cli.study.phases.soft import soften, start_search, temperature_at
from effsparse_cli.study.training.loop import train
from tests.study.tiny import STEPS, make_task, run


def test_temperature_grows_exponentially() -> None:
    assert temperature_at(200, 0, 85) == 1
    assert temperature_at(200, 84, 85) == pytest.approx(200)
    assert temperature_at(200, 42, 85) == pytest.approx(200**0.5)
    assert temperature_at(200, 0, 1) == 1


def test_the_search_starts_as_the_dense_network() -> None:
    experiment = prepare(make_task("cs", options={"initial": -0.3, "penalty": 2.0}))
    start_search(0, experiment)
    weights, penalty = soften(experiment, 0)
    for layer, name in experiment.network.parameters.items():
        assert torch.allclose(weights[name], experiment.network.weights[layer])
    assert penalty.item() == pytest.approx(2 * 1984 * torch.sigmoid(torch.tensor(-0.3)).item(), rel=1e-5)


@pytest.mark.parametrize(("effective", "options"), [(False, {}), (False, {"rounds": 2, "rewind": 1}), (True, {})])
def test_counts_are_exact(tmp_path: Path, effective: bool, options: dict[str, int]) -> None:
    result = run(make_task("cs", 10, effective=effective, options=options), tmp_path)
    if effective:
        assert 199 <= result["final"]["active"] <= 205
    else:
        assert abs(result["final"]["kept"] - 198.4) <= 1
    searches = options.get("rounds", 1)
    assert result["steps"] == (searches * 3 + 3 - options.get("rewind", 0)) * STEPS
    with open(tmp_path / "curve.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["phase"] for row in rows} == {*(f"search {i + 1}" for i in range(searches)), "pruned"}


def test_the_largest_soft_masks_are_kept_and_weights_rewound() -> None:
    experiment = prepare(make_task("cs", 10))
    initial = experiment.network.state()
    search, final = plan_phases(experiment)
    train(experiment, [search], lambda due: None, lambda done, total: None)
    learned = torch.cat([values.detach().flatten() for values in experiment.soft.values()])
    assert len({*learned.tolist()}) > 100
    final.start(experiment)
    kept = torch.cat([mask.flatten() for mask in experiment.network.masks.values()])
    assert learned[kept].min() >= learned[~kept].max()
    assert not experiment.soft
    for layer, name in experiment.network.parameters.items():
        mask = experiment.network.masks[layer]
        assert torch.equal(experiment.network.weights[layer], torch.where(mask, initial[name], torch.zeros(())))


def test_later_rounds_restart_what_grew() -> None:
    experiment = prepare(make_task("cs", options={"initial": 0.1}))
    start_search(0, experiment)
    first = next(iter(experiment.soft.values()))
    with torch.no_grad():
        first.view(-1)[:2] = torch.tensor([0.5, -0.01])
    start_search(1, experiment)
    assert first.view(-1)[:3].tolist() == pytest.approx([0.1, -2.0, 0.1])
