"""Iterative magnitude pruning: rounds, and rewinding to the initial weights or to an early epoch."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from effsparse_cli.errors import UsageError
from effsparse_cli.study.experiment import plan_phases, prepare
from effsparse_cli.study.phases.tickets import compression_after, count_rounds
from effsparse_cli.study.training.loop import train
from tests.study.tiny import STEPS, make_task, run


def test_rounds_of_twenty_percent() -> None:
    assert [count_rounds(0.8**n) for n in (1, 5, 10)] == [1, 5, 10]
    assert count_rounds(1 / 100) == 21
    assert [compression_after(16, n, 4) for n in range(5)] == pytest.approx([1, 2, 4, 8, 16])


def test_each_round_keeps_the_same_share(tmp_path: Path) -> None:
    task = make_task("imp", 8, epochs=2, options={"rounds": 3})
    result = run(task, tmp_path)
    assert abs(result["final"]["kept"] - 1984 / 8) <= 1
    assert result["steps"] == 4 * 2 * STEPS
    with open(tmp_path / "curve.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["phase"] for row in rows[::2]] == ["dense", "round 1", "round 2", "round 3"]
    assert [float(row["direct_compression"]) for row in rows[1::2]] == pytest.approx([1, 2, 4, 8], rel=0.01)


@pytest.mark.parametrize("rewind", [0, 1])
def test_kept_weights_are_rewound_and_masks_only_shrink(rewind: int) -> None:
    task = make_task("imp", 4, epochs=2, options={"rounds": 2, "rewind": rewind})
    experiment = prepare(task)
    initial = experiment.network.state()
    phases = plan_phases(experiment)
    train(experiment, phases[:1], lambda due: None, lambda done, total: None)
    early, trained = experiment.saved["early"], experiment.network.state()
    assert torch.equal(early["1.weight"], initial["1.weight"]) == (rewind == 0)
    before = {name: np.ones(w.shape, bool) for name, w in experiment.network.weights.items()}
    for phase in phases[1:]:
        phase.start(experiment)
        assert phase.epochs == range(rewind, 2)
        kept = experiment.network.kept()
        assert all((kept[name] <= before[name]).all() for name in kept)
        before = kept
        for layer, parameter in experiment.network.parameters.items():
            mask = experiment.network.masks[layer]
            expected = torch.where(mask, early[parameter], torch.zeros(()))
            assert torch.equal(experiment.network.weights[layer], expected)
        if phase is phases[1]:
            sizes = torch.cat(
                [trained[parameter].abs().flatten() for parameter in experiment.network.parameters.values()]
            )
            flat = torch.cat([mask.flatten() for mask in experiment.network.masks.values()])
            assert sizes[flat].min() >= sizes[~flat].max()


def test_rewinding_past_the_end(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rewound to epoch 3, but training has only 3"):
        run(make_task("imp", options={"rewind": 3}), tmp_path)
