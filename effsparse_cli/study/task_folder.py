"""The folder of one task of a study: `tasks/NAME-HASH/` with

    task.json             what decides the result
    result.json           the result, written last
    failure.json          why the task failed
    weights.safetensors, masks.safetensors, curve.csv
    checkpoint.pt         where to resume, until there is a result
    .lock

A task is finished if and only if it has a result.json. Whoever works on a task holds a lock on its .lock file, which
the operating system releases when that process ends, however it ends.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.writing.atomic import replacing
from effsparse_cli.study.task import StudyTask, task_text

SCHEMA_VERSION = 1
FINISHED, FAILED, RUNNING, PENDING = "finished", "failed", "running", "pending"
CHECKPOINT = "checkpoint.pt"
ADVICE = "Delete it to run the task again."


class TaskFailure(NamedTuple):
    """Why a task has no result, and when it failed."""

    reason: str
    time: str


@dataclass(frozen=True)
class TaskFolder:
    """One task in the folder of a study."""

    path: Path
    task: StudyTask

    @property
    def name(self) -> str:
        return self.path.name

    def state(self) -> str:
        if self.is_finished():
            return FINISHED
        if self.is_locked():
            return RUNNING
        return FAILED if (self.path / "failure.json").exists() else PENDING

    def is_finished(self) -> bool:
        return (self.path / "result.json").exists()

    def result(self) -> dict[str, Any] | None:
        document = read_json(self.path / "result.json")
        if document is not None and not _is_result(document):
            raise LoadError(f"{self.path / 'result.json'} is not the result of a task. {ADVICE}")
        return document

    def failure(self) -> TaskFailure | None:
        document = read_json(self.path / "failure.json")
        return None if document is None else TaskFailure(str(document.get("reason", "")), str(document.get("time", "")))

    def write_result(self, result: Mapping[str, Any]) -> None:
        write_json(self.path / "result.json", {"schema_version": SCHEMA_VERSION, **result})
        self.clean()

    def clean(self) -> None:
        """Remove what a finished task does not need."""
        for name in ("failure.json", CHECKPOINT):
            (self.path / name).unlink(missing_ok=True)

    def write_failure(self, reason: str, traceback: str = "") -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.describe()
        time = datetime.now(UTC).isoformat()
        document = {"schema_version": SCHEMA_VERSION, "time": time, "reason": reason, "traceback": traceback}
        write_json(self.path / "failure.json", document)

    def describe(self) -> None:
        """Write task.json: what decides the result."""
        if not (self.path / "task.json").exists():
            write_json(self.path / "task.json", json.loads(task_text(self.task)))

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock of the task within the block. Yield False if somebody else holds it. Creates the folder."""
        fcntl = find_locks()
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            file.truncate(0)
            file.write(f"process {os.getpid()}\n")
            file.flush()
            yield True

    def is_locked(self) -> bool:
        fcntl = find_locks()
        try:
            with open(self.path / ".lock", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write JSON in one step. Numbers that JSON does not have, such as the compression of a disconnected network, are
    null."""
    with replacing(path) as temporary:
        text = json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)
        temporary.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace", newline="\n")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path, advice: str = ADVICE) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None if the file does not exist."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise LoadError(f"{path} cannot be read: {error}. {advice}") from error
    if not isinstance(document, dict):
        raise LoadError(f"{path} is not a JSON object. {advice}")
    return document


def _is_result(document: Mapping[str, Any]) -> bool:
    """Whether everything that tables and figures read has the right type."""
    kinds = {"accuracy": float | int | None, "pruned": dict, "final": dict, "layers": list, "notes": list}
    return (
        document.get("schema_version") == SCHEMA_VERSION
        and all(isinstance(document[name], kind) for name, kind in kinds.items() if name in document)
        and all(
            isinstance(each, dict) and {"name", "connections", "kept"} <= {*each} for each in document.get("layers", ())
        )
    )


def find_locks() -> Any:
    try:
        import fcntl
    except ImportError as error:
        raise UsageError("effsparse study needs file locks (flock), which this system does not have.") from error
    return fcntl
