"""The folder of a study: plain files that are readable without this tool.

    study.toml                the study file
    study.json                where it came from, and its tasks
    tasks/NAME-HASH/
        task.json             what decides the result
        result.json           the result, written last
        failure.json          why there is none
        weights.safetensors, masks.safetensors, curve.csv
        checkpoint.pt         where to go on, until there is a result
        .lock

A task is finished if and only if it has a result.json. Whoever works on a task holds a lock on its .lock file, which
the operating system releases when that process ends, however it ends.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.writing.atomic import replacing
from effsparse_cli.study.file import FindRecipe, Study, expand_study, parse_study
from effsparse_cli.study.task import StudyTask, task_name, task_text

SCHEMA_VERSION = 1
FINISHED, FAILED, RUNNING, PENDING = "finished", "failed", "running", "pending"
CHECKPOINT = "checkpoint.pt"
STUDY_FILE, STUDY_INDEX, TASKS = "study.toml", "study.json", "tasks"


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
        return _read_json(self.path / "result.json")

    def failure(self) -> str:
        document = _read_json(self.path / "failure.json")
        return str(document.get("reason", "")) if document else ""

    def write_result(self, result: Mapping[str, Any]) -> None:
        write_json(self.path / "result.json", {"schema_version": SCHEMA_VERSION, **result})
        for name in ("failure.json", CHECKPOINT):
            (self.path / name).unlink(missing_ok=True)

    def write_failure(self, reason: str, traceback: str = "") -> None:
        self.prepare()
        document = {"schema_version": SCHEMA_VERSION, "reason": reason, "traceback": traceback}
        write_json(self.path / "failure.json", document)

    def forget_failure(self) -> None:
        (self.path / "failure.json").unlink(missing_ok=True)

    def prepare(self) -> None:
        """Create the folder, with a description of the task."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / "task.json").exists():
            write_json(self.path / "task.json", json.loads(task_text(self.task)))

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock of the task within the block. Yield False if somebody else holds it."""
        fcntl = _locks()
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
        fcntl = _locks()
        try:
            with open(self.path / ".lock", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


@dataclass(frozen=True)
class StudyFolder:
    """A study on disk. `strays` are folders of tasks that the study file no longer has."""

    path: Path
    study: Study
    tasks: tuple[TaskFolder, ...]
    strays: tuple[Path, ...] = ()


def open_folder(path: Path, study: Study, find_recipe: FindRecipe) -> StudyFolder:
    """Create the folder of a study, or open the one of an earlier run. Results of tasks that the study still has are
    kept."""
    tasks = expand_study(study, find_recipe)
    if path.exists() and not (path / STUDY_INDEX).exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"--folder {path} exists and is not the folder of a study. Choose another one.")
    _locks()
    try:
        (path / TASKS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--folder {path} cannot be created: {error.strerror or error}.") from error
    if not _is_copy(path, study):
        with replacing(path / STUDY_FILE) as temporary:
            temporary.write_bytes(study.text.encode())
    study = find_data_folder(path, study)
    names = [task_name(task) for task in tasks]
    document = {"schema_version": SCHEMA_VERSION, "data_relative_to": str(study.folder), "tasks": names}
    write_json(path / STUDY_INDEX, document)
    return _folder(path, study, tasks)


def find_data_folder(path: Path, study: Study) -> Study:
    """Return the study with the folder that its data is relative to: for the copy in `path`, that of the original."""
    if not _is_copy(path, study):
        return study
    earlier = _read_json(path / STUDY_INDEX) or {}
    return replace(study, folder=Path(earlier.get("data_relative_to", study.folder)))


def _is_copy(path: Path, study: Study) -> bool:
    return study.folder == Path(os.path.abspath(path))


def read_folder(path: Path, find_recipe: FindRecipe) -> StudyFolder:
    """Open the folder of a study without changing it."""
    document = _read_json(path / STUDY_INDEX)
    if document is None:
        raise LoadError(f"{path} is not the folder of a study: it has no study.json. effsparse study run makes one.")
    try:
        text = (path / STUDY_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path / 'study.toml'} cannot be read: {error}.") from error
    study = parse_study(text, str(path / STUDY_FILE), Path(str(document.get("data_relative_to", path))))
    return _folder(path, study, expand_study(study, find_recipe))


def _folder(path: Path, study: Study, tasks: Sequence[StudyTask]) -> StudyFolder:
    folders = [TaskFolder(path / TASKS / task_name(task), task) for task in tasks]
    known = {each.name for each in folders}
    others = sorted(each for each in (path / TASKS).iterdir() if each.is_dir() and each.name not in known)
    return StudyFolder(path, study, tuple(folders), tuple(others))


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write JSON in one step. Numbers that JSON does not have, such as the compression of a disconnected network, are
    null."""
    with replacing(path) as temporary:
        text = json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)
        temporary.write_text(f"{text}\n", encoding="utf-8", newline="\n")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None if the file does not exist."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise LoadError(f"{path} cannot be read: {error}. Delete it to run the task again.") from error
    if not isinstance(document, dict):
        raise LoadError(f"{path} is not a JSON object. Delete it to run the task again.")
    return document


def _locks() -> Any:
    try:
        import fcntl
    except ImportError as error:
        raise UsageError("effsparse study needs file locks (flock), which this system does not have.") from error
    return fcntl
