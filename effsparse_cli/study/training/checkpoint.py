"""Checkpoints of an experiment: everything that the rest of the run depends on, written atomically and read as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from effsparse_cli.errors import LoadError, UsageError, first_line
from effsparse_cli.formats.writing.atomic import replacing
from effsparse_cli.study.network import load_state, state_of
from effsparse_cli.study.run import Progress, Run
from effsparse_cli.study.task import StudyTask, task_text
from effsparse_cli.study.task_folder import CHECKPOINT


def write_checkpoint(run: Run, folder: Path) -> None:
    content = {
        "task": _describe_task(run.task),
        "progress": asdict(run.progress),
        "module": state_of(run.module),
        "compacted": run.compacted is not None,
        "optimizer": None if run.optimizer is None else run.optimizer.state_dict(),
        "masks": run.network.masks,
        "saved": run.saved,
        "soft": {name: values.detach() for name, values in run.soft.items()},
        "pruned": run.pruned,
        "rows": run.rows,
        "notes": run.notes,
    }
    with replacing(folder / CHECKPOINT) as temporary:
        torch.save(content, temporary)


def _describe_task(task: StudyTask) -> str:
    """Describe a task without the place of its data, which may have moved since."""
    return task_text(replace(task, data={name: value for name, value in task.data.items() if name != "path"}))


def restore_checkpoint(run: Run, folder: Path) -> None:
    """Continue from the checkpoint in a folder, if there is one. The run must be one that has not begun."""
    path = folder / CHECKPOINT
    if not path.exists():
        return
    with open(path, "rb") as file:
        file.read(1)  # a file that cannot be read is not damaged
    try:
        content = torch.load(path, map_location=run.network.device, weights_only=True)
        task = content["task"]
    except MemoryError:
        raise
    except Exception as error:
        raise LoadError(
            f"{path} cannot be read: it is damaged, or not a checkpoint of effsparse. Delete it to start this "
            "experiment again."
        ) from error
    if task != _describe_task(run.task):
        raise UsageError(f"{path} belongs to another experiment. Delete it, or choose another folder.")
    try:
        _restore(run, content)
    except (KeyError, TypeError, RuntimeError, ValueError) as error:
        raise LoadError(
            f"{path} does not fit this experiment: {first_line(error, 200)}. Delete it to start the experiment again."
        ) from error


def _restore(run: Run, content: Mapping[str, Any]) -> None:
    run.network.apply(content["masks"])
    if content["compacted"]:
        run.compact()  # what is removed depends on the masks alone
    load_state(run.module, content["module"])
    run.soft = {name: nn.Parameter(values) for name, values in content["soft"].items()}
    if content["optimizer"] is not None:
        run.start_optimizer()
        assert run.optimizer is not None
        run.optimizer.load_state_dict(content["optimizer"])
    run.hold()
    run.progress = Progress(**content["progress"])
    run.saved, run.pruned, run.rows, run.notes = (content[name] for name in ("saved", "pruned", "rows", "notes"))
