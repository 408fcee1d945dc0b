"""Whole experiments: results, files, targets, interruptions, and errors."""

from __future__ import annotations

import csv
import errno
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch_file

import effsparse_cli
from effsparse_cli.errors import EffsparseError, LoadError, SetupError, TargetError, TrainingError, UsageError
from effsparse_cli.imports import import_object
from effsparse_cli.study import experiment
from effsparse_cli.study.experiment import run_experiment
from effsparse_cli.study.task import StudyTask
from tests.study.tiny import STEPS, make_task, run

HERE = "tests.study.tiny"
TASKS: dict[str, StudyTask] = {
    "dense": make_task("dense", 1),
    "snip": make_task("snip", effective=True, augment=["shift", "flip", "rotate"]),
    "trained": make_task("lamp", when="trained", epochs=2),
    "dropout": make_task("random", model=f"{HERE}:with_dropout", lsq="from:synflow", options={"rounds": 3}),
    "gmp": make_task("gmp", options={"every": 2}),
    "imp": make_task("imp", options={"rounds": 2, "rewind": 1}, epochs=2),
    "set": make_task("set", options={"every": 4}),
    "rigl": make_task("rigl", options={"every": 4}),
    "cs": make_task("cs", epochs=2),
    "buffer": make_task("magnitude", when="trained", model="tests.study.odd:WithBuffer", epochs=2),
    "state": make_task("imp", options={"rounds": 2}, model="tests.study.odd:WithState", epochs=2),
    "numpy": make_task("snip", model="tests.study.odd:ByNumpy", epochs=2),
    "compact": make_task("snip", effective=True, compact=True, epochs=2),
}


class InterruptedRunError(Exception):
    """Stands for a killed process."""


def run_with_interruptions(task: StudyTask, folder: Path, places: list[int]) -> dict[str, Any]:
    """Run a task, and stop it when it reports each of these steps for the first time."""
    left = sorted(places)

    def report(done: int, total: int) -> None:
        if left and done >= left[0]:
            left.pop(0)
            raise InterruptedRunError

    while left:
        with pytest.raises(InterruptedRunError):
            run_experiment(task, folder, report)
    return run_experiment(task, folder, report)


@pytest.mark.parametrize(("method", "name"), [("grasp", "Attention"), ("snip", "compiled")])
def test_models_of_other_kinds(tmp_path: Path, method: str, name: str) -> None:
    result = run(make_task(method, 3, model=f"tests.study.odd:{name}", epochs=1), tmp_path)
    assert result["final"]["kept"] == math.ceil(result["final"]["connections"] / 3)


@pytest.mark.parametrize("method", ["random", "snip", "grasp", "cs"])
@pytest.mark.parametrize("name", ["Shared", "Tied"])
def test_what_is_pruned_in_shared_layers_stays_zero(tmp_path: Path, method: str, name: str) -> None:
    result = run(make_task(method, 3, model=f"tests.study.odd:{name}", epochs=2), tmp_path)
    masks, weights = load_file(tmp_path / "masks.safetensors"), load_file(tmp_path / "weights.safetensors")
    assert all(not weights[name][masks[name] == 0].any() for name in masks)
    assert sum(int(mask.sum()) for mask in masks.values()) == result["final"]["kept"]


@pytest.mark.parametrize(
    ("model", "compression"), [("odd:Gated", 40), ("odd:Attention", 30), ("tiny:Residual", 30), ("tiny:mlp", 60)]
)
@pytest.mark.parametrize("method", ["random", "rigl"])
def test_counts_are_those_of_the_trained_weights(tmp_path: Path, method: str, model: str, compression: int) -> None:
    """Even if weights, scales and biases are zero before training."""
    task = make_task(method, compression, lsq="igq", model=f"tests.study.{model}", epochs=2)
    result = run(task, tmp_path)
    module = import_object(task.model, "model", "")()
    module.load_state_dict(load_torch_file(tmp_path / "weights.safetensors"))
    masks = tmp_path / "masks.safetensors"
    found = effsparse_cli.analyze(module.eval(), torch.zeros(1, 1, 8, 8), masks=masks).totals
    assert (result["final"]["kept"], result["final"]["active"]) == (found.kept, found.active)
    assert found.active < found.kept


def without_time(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "seconds"}


@pytest.mark.parametrize("every_step", [True, False], ids=["every step saved", "epochs saved"])
@pytest.mark.parametrize("name", TASKS)
def test_interrupted_is_the_same_as_uninterrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, every_step: bool
) -> None:
    if name == "compact" and every_step:
        pytest.skip("compaction is slow, and was tested with saved epochs")
    task = TASKS[name]
    whole = run(task, tmp_path / "whole")
    monkeypatch.setattr(experiment, "SECONDS_BETWEEN_CHECKPOINTS", 0.0 if every_step else 1e9)
    steps = whole["steps"]
    places = [1, STEPS - 1, STEPS, STEPS + 2, steps - 3, steps] if name != "compact" else [STEPS + 1]
    parts = run_with_interruptions(task, tmp_path / "parts", places)
    assert without_time(parts) == without_time(whole)
    for file in ("curve.csv", "masks.safetensors", "weights.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_results_and_files(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    task = make_task("synflow", 10, effective=True, epochs=6, options={"rounds": 10})
    result = run_experiment(task, tmp_path, lambda done, total: seen.append((done, total)))
    assert seen == [(i, 6 * STEPS) for i in range(6 * STEPS + 1)]
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["pruned"] == result["final"]
    assert result["final"]["effective_compression"] == pytest.approx(10, rel=0.03)
    assert sum(layer["active"] for layer in result["layers"]) == result["final"]["active"]
    assert [layer["connections"] for layer in result["layers"]] == [64 * 24, 24 * 16, 64]
    assert (result["epochs"], result["steps"], result["disconnected"]) == (6, 6 * STEPS, False)
    assert result["accuracy"] > 0.5  # chance is 0.25
    masks = load_file(tmp_path / "masks.safetensors")
    assert sum(int(mask.sum()) for mask in masks.values()) == result["final"]["kept"]
    assert {*masks} == {"1.weight", "4.weight", "7.weight"}
    with open(tmp_path / "curve.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == [str(i) for i in range(6)]
    assert float(rows[-1]["test_accuracy"]) == result["accuracy"]
    weights = load_file(tmp_path / "weights.safetensors")
    assert all(not weights[name][~mask].any() for name, mask in masks.items())
    assert "2.running_mean" in weights


def test_a_finished_experiment_is_not_trained_again(tmp_path: Path) -> None:
    task = TASKS["snip"]
    first = run(task, tmp_path)
    seen: list[int] = []
    again = run_experiment(task, tmp_path, lambda done, total: seen.append(done))
    assert again == first
    assert seen == [first["steps"]]


@pytest.mark.parametrize("method", ["random", "magnitude", "lamp", "snip", "grasp", "force", "snip-iterative"])
@pytest.mark.parametrize("effective", [False, True])
def test_targets(tmp_path: Path, method: str, effective: bool) -> None:
    options = {"rounds": 4} if method in ("force", "snip-iterative") else {}
    task = make_task(method, 6, effective=effective, epochs=0, options=options)
    result = run(task, tmp_path)
    wanted = 331  # 1984 / 6, rounded up
    if effective:
        assert wanted <= result["final"]["active"] <= wanted + 5
    else:
        assert result["final"]["kept"] == wanted
    assert (result["accuracy"], result["epochs"]) == (None, 0)


def test_random_with_the_layerwise_sparsities_of_another_method(tmp_path: Path) -> None:
    first, second = (
        run(make_task(method, 10, lsq=lsq, epochs=0, options={"rounds": 10}), tmp_path / method)
        for method, lsq in (("synflow", ""), ("random", "from:synflow"))
    )
    assert [layer["kept"] for layer in first["layers"]] == [layer["kept"] for layer in second["layers"]]


def test_disconnected_networks_are_trained_and_reported(tmp_path: Path) -> None:
    result = run(make_task("random", 900, lsq="uniform", epochs=1), tmp_path)
    assert result["disconnected"]
    assert result["cut"]
    assert result["final"]["effective_compression"] is None
    assert json.dumps(result, allow_nan=False)


def test_seeds_give_different_networks(tmp_path: Path) -> None:
    results = [run(make_task("random", 4, epochs=1, seed=seed), tmp_path / str(seed)) for seed in (0, 1)]
    assert results[0]["loss"] != results[1]["loss"]
    masks = [load_file(tmp_path / each / "masks.safetensors")["1.weight"] for each in ("0", "1")]
    assert not np.array_equal(*masks)


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        (make_task("dense", 1, lr=1e30), TrainingError, "the loss is .* in epoch 0, batch 1 .* lower learning rate"),
        (make_task("snip", data={"kind": "mnist", "path": "absent"}), SetupError, "absent does not exist"),
        (make_task("snip", model="lenet-5"), SetupError, "does not fit the data"),
        (make_task("random", 1900, effective=True, lsq="uniform"), TargetError, "out of reach"),
        (make_task("dense", 1, device="cuda:77"), SetupError, "recipe: device cuda:77 cannot be used here"),
        (make_task("snip", augment=["crop"]), SetupError, "needs images larger than the input"),
        (make_task("snip", model="tests.study.odd:Parameterless"), SetupError, "has no layer with weights to prune"),
        (
            make_task("random", 2, model="tests.study.odd:diverged"),
            TrainingError,
            r"the loss is nan .* Check the model",
        ),
    ],
)
def test_errors(tmp_path: Path, task: StudyTask, error: type[EffsparseError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(task, tmp_path)
    assert not (tmp_path / "masks.safetensors").exists()


def test_checkpoints_of_other_experiments_and_damaged_ones(tmp_path: Path) -> None:
    run(make_task("dense", 1, epochs=1), tmp_path)
    with pytest.raises(UsageError, match="belongs to another experiment"):
        run(make_task("dense", 1, epochs=1, seed=1), tmp_path)
    checkpoint = tmp_path / "checkpoint.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(LoadError, match="Delete it to start this experiment again"):
        run(make_task("dense", 1, epochs=1), tmp_path)


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task("dense", 1, epochs=2)
    whole = run(task, tmp_path / "whole")
    save, calls = torch.save, 0

    def fail(*args: Any, **kwargs: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(*args, **kwargs)

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(UsageError, match="No space left on device"):
        run(task, tmp_path / "parts")
    assert {path.name for path in (tmp_path / "parts").iterdir()} == {"checkpoint.pt", "curve.csv"}
    assert without_time(run(task, tmp_path / "parts")) == without_time(whole)


def test_a_coarse_ranking_is_noted(tmp_path: Path) -> None:
    """With uniform quotas and few connections, removing one of the last layer takes many others along."""
    result = run(make_task("random", 60, effective=True, lsq="uniform", epochs=0), tmp_path)
    wanted = math.ceil(1984 / 60)
    reached = result["final"]["active"]
    assert reached > wanted + 1
    assert result["notes"] == [
        f"{reached} connections, not {wanted}: removing one more weight would leave fewer than that"
    ]
    fine = run(make_task("random", 30, effective=True, lsq="igq", epochs=0), tmp_path / "fine")
    assert fine["notes"] == [], "connections that would carry the bias of a dead neuron are removed before training"
