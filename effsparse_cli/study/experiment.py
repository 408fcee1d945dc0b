"""One experiment: a task in; a trained network's accuracy, sparsity, masks and training curve out.

A run that was killed resumes from its last checkpoint. With one thread, the results are the same to the last bit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effsparse_cli.errors import EffsparseError, SetupError, UsageError
from effsparse_cli.study.phases import METHODS, check_epochs, check_task
from effsparse_cli.study.task import StudyTask

if TYPE_CHECKING:
    from effsparse_cli.study.data.dataset import Data
    from effsparse_cli.study.run import Phase, Run

SECONDS_BETWEEN_CHECKPOINTS = 30.0
MASKS, WEIGHTS = "masks.safetensors", "weights.safetensors"


def run_experiment(task: StudyTask, folder: Path, report: Callable[[int, int], None]) -> dict[str, Any]:
    """Run a task to its end, from the checkpoint in `folder` if there is one, and return its results.

    Writes `checkpoint.pt`, `curve.csv`, `masks.safetensors` and `weights.safetensors` to the folder. `report` is called
    with the number of completed training steps and the total.
    """
    from effsparse_cli.study.compact import restore_weights
    from effsparse_cli.study.recipes import find_recipe
    from effsparse_cli.study.training.checkpoint import restore_checkpoint, write_checkpoint
    from effsparse_cli.study.training.curve import write_curve
    from effsparse_cli.study.training.loop import train

    check_task(task)
    check_epochs(task, find_recipe(task.model, task.recipe).epochs)
    try:
        run = prepare(task)
    except EffsparseError as error:
        raise SetupError(str(error)) from error
    phases = plan_phases(run)
    folder.mkdir(parents=True, exist_ok=True)
    restore_checkpoint(run, folder)
    written = time.monotonic()

    def save(due: bool) -> None:
        nonlocal written
        if due or time.monotonic() - written >= SECONDS_BETWEEN_CHECKPOINTS:
            write_checkpoint(run, folder)
            written = time.monotonic()
        if due:
            write_curve(run.rows, folder)

    train(run, phases, save, report)
    if run.compacted is not None:
        restore_weights(run.compacted, run.network)
    return _finish(run, folder)


def prepare(task: StudyTask) -> Run:
    """Read the data and build the network of a task, before anything is pruned or trained."""
    import torch

    from effsparse_cli.paths.devices import find_device
    from effsparse_cli.study.compact import check_module
    from effsparse_cli.study.data.batches import count_batches, generator, training_batch
    from effsparse_cli.study.models import build_model, check_training
    from effsparse_cli.study.network import Network
    from effsparse_cli.study.recipes import find_recipe
    from effsparse_cli.study.run import Run

    recipe = find_recipe(task.model, task.recipe)
    data = _read_once(json.dumps(dict(task.data), sort_keys=True), os.getcwd())
    if count_batches(len(data.train), recipe.batch) == 0:
        raise UsageError(f"{len(data.train)} training examples are too few: batch norm needs at least two.")
    examples, _ = training_batch(data, torch.arange(2), recipe.augment, generator("trial"))
    model = build_model(task.model, classes=data.classes, shape=data.shape, seed=task.seed)
    check_training(task.model, model, data.classes, examples)
    if task.compact:
        check_module(model, data.shape)
    network = Network(model, data.shape, find_device(recipe.device, torch.float32, "recipe: device"))
    return Run(task=task, data=data, recipe=recipe, network=network, module=network.module)


@lru_cache(maxsize=1)
def _read_once(spec: str, folder: str) -> Data:
    """Keep the last data set: a Ray worker runs several tasks of a study, and decoding images takes long."""
    from effsparse_cli.study.data import read_data

    return read_data(json.loads(spec))


def plan_phases(run: Run) -> list[Phase]:
    name = METHODS[run.task.method].plan if run.task.method in METHODS else "fixed.plan"
    module, _, function = name.partition(".")
    plan: Callable[[Run], list[Phase]] = getattr(import_module(f"effsparse_cli.study.phases.{module}"), function)
    return plan(run)


def _finish(run: Run, folder: Path) -> dict[str, Any]:
    from effsparse_cli.formats.writing.masks import by_parameter, write_masks
    from effsparse_cli.study.run import describe_counts, describe_layers
    from effsparse_cli.study.training.curve import write_curve

    analysis = run.network.measure()
    write_masks(by_parameter(run.network.kept(), run.network.graph), folder / MASKS)
    _write_weights(run, folder / WEIGHTS)
    write_curve(run.rows, folder)
    final = describe_counts(analysis.totals)
    last: dict[str, Any] = run.rows[-1] if run.rows else {}
    return {
        "accuracy": last.get("test_accuracy"),
        "train_accuracy": last.get("train_accuracy"),
        "loss": last.get("loss"),
        "pruned": run.pruned or final,
        "final": final,
        "disconnected": analysis.disconnected,
        "cut": analysis.cut,
        "layers": describe_layers(analysis),
        "epochs": len(run.rows),
        "steps": run.progress.steps,
        "seconds": round(run.progress.seconds, 3),
        "notes": run.notes,
    }


def _write_weights(run: Run, path: Path) -> None:
    """Write the parameters and buffers of the network. Tied ones are copied: safetensors refuses shared memory."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    from effsparse_cli.formats.writing.atomic import replacing

    state = run.network.module.state_dict()
    tensors = {name: each.cpu().contiguous().clone() for name, each in state.items() if torch.is_tensor(each)}
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary)
        except SafetensorError as error:
            raise OSError(str(error)) from error
