"""An experiment that is fast and deterministic, counts every step that it does, and goes on where it was killed."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from effsparse_cli.errors import LoadError, SetupError, WriteError
from effsparse_cli.study.task import StudyTask
from effsparse_cli.study.task_folder import CHECKPOINT

STEPS = 10
CONNECTIONS = 10_000


def find_recipe(model: str, changes: Any) -> dict[str, Any]:
    return {"epochs": 3, **changes}


def run_experiment(task: StudyTask, folder: Path, report: Callable[[int, int], None]) -> dict[str, Any]:
    """Hash the seed STEPS times. Options: `delay` seconds per step, and at step 5 `fail`, `crash`, `bug`, `setup`,
    `full`, `unwritable`."""
    checkpoint, log = folder / CHECKPOINT, folder / "log.txt"
    done, state = 0, f"{task.method} {task.lsq} {task.compression:g} {task.seed}"
    if checkpoint.exists():
        number, state = checkpoint.read_text().split()
        done = int(number)
    while done < STEPS:
        time.sleep(task.options.get("delay", 0))
        if done == 5:
            _misbehave(task, folder)
        state = hashlib.sha256(state.encode()).hexdigest()
        done += 1
        temporary = folder / f"checkpoint.{os.getpid()}"
        temporary.write_text(f"{done} {state}")
        temporary.replace(checkpoint)
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{done}\n")
        report(done, STEPS)
    kept = max(1, round(CONNECTIONS / task.compression))
    active = max(1, kept // 2) if task.method == "random" else kept
    counts = {
        "connections": CONNECTIONS,
        "kept": kept,
        "active": active,
        "direct_compression": CONNECTIONS / kept,
        "effective_compression": CONNECTIONS / active,
    }
    layers = [{"name": name, "connections": n, "kept": k, "active": k} for name, n, k in _layers(kept)]
    accuracy = 1 / (1 + task.compression / 1000) - int(state[:2], 16) / 2550
    return {"accuracy": accuracy, "pruned": counts, "final": counts, "layers": layers, "state": state}


def _layers(kept: int) -> list[tuple[str, int, int]]:
    return [("fc1", CONNECTIONS * 9 // 10, max(1, kept * 8 // 10)), ("fc2", CONNECTIONS // 10, max(1, kept * 2 // 10))]


def _misbehave(task: StudyTask, folder: Path) -> None:
    if task.options.get("fail") and not (folder.parent.parent / "mended").exists():
        raise LoadError("the loss is NaN in epoch 2")
    if task.options.get("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if task.options.get("bug"):
        raise ZeroDivisionError("division by zero")
    if task.options.get("setup"):
        raise SetupError("the data folder mnist does not exist.")
    if task.options.get("unwritable"):
        raise WriteError("checkpoint.pt cannot be written. Is the disk full?")
    if task.options.get("full"):
        raise OSError(28, "No space left on device")
