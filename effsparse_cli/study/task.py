"""One experiment of a study: everything that decides its result, a hash of that, and the name of its folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FORMAT_VERSION = 1
"""Raised when the same task would give another result than before, so that old results are not taken for new ones."""
UNSAFE = re.compile(r"[^a-z0-9.]+|\.{2,}")


@dataclass(frozen=True)
class StudyTask:
    """Everything that decides the result of one experiment, and nothing else."""

    model: str  # built-in name, or "package.module:factory"
    data: Mapping[str, Any]  # {"kind": "mnist" | "cifar10" | ..., "path": ..., "train": n | None, "test": n | None}
    method: str  # random, magnitude, ..., dense, gmp, imp, set, rigl, cs
    lsq: str  # "" is the method's default; "from:METHOD" as in prune
    compression: float  # 1 is dense
    effective: bool  # whether compression is effective or direct
    when: str  # "init" | "trained" (prune after training, rewind to the initial weights) | "training"
    seed: int
    recipe: Mapping[str, Any]  # epochs, drops, batch, lr, momentum, decay, augment, ...
    options: Mapping[str, Any]  # of the method: rounds, prune_every, alpha ...
    compact: bool = False  # train the compacted network


def task_text(task: StudyTask) -> str:
    """Return the task as canonical JSON: equal tasks give equal text, whatever the order of their keys."""
    document = {"format_version": FORMAT_VERSION, **_plain(asdict(task))}
    return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def task_id(task: StudyTask) -> str:
    """Return a short hash of everything that decides the result."""
    return hashlib.sha256(task_text(task).encode()).hexdigest()[:12]


def task_name(task: StudyTask) -> str:
    """Return the name of the task's folder: readable, safe in any file system, and unique by its hash."""
    pruned = [task.lsq, f"{'effective' if task.effective else 'direct'}{task.compression:g}x"]
    words = [
        task.model.rpartition(":")[2],
        task.method,
        *(pruned if task.method != "dense" else []),
        f"seed{task.seed}",
    ]
    safe = (UNSAFE.sub("_", word.lower()).strip("._") for word in words)
    return "-".join([*(word[:40] for word in safe if word), task_id(task)])


def describe_task(task: StudyTask) -> str:
    """Return what distinguishes a task from the others of its study, in a few words."""
    pruned = [task.lsq, f"{task.compression:g}x"] if task.method != "dense" else []
    return " ".join(word for word in [task.method, *pruned, f"seed {task.seed}"] if word)


def _plain(value: Any) -> Any:
    """Return a value as JSON would give it back, with whole numbers as integers: 100 and 100.0 are the same task."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
