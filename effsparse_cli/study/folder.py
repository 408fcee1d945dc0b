"""The folder of a study: plain files that are readable without this tool.

    study.toml                the study file
    study.json                where it came from, and its tasks
    tasks/NAME-HASH/
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from effsparse_cli.errors import EffsparseError, LoadError, UsageError
from effsparse_cli.formats.writing.atomic import replacing
from effsparse_cli.study.file import FindRecipe, Study, expand_study, parse_study
from effsparse_cli.study.task import StudyTask, task_name, task_text

SCHEMA_VERSION = 1
FINISHED, FAILED, RUNNING, PENDING = "finished", "failed", "running", "pending"
CHECKPOINT = "checkpoint.pt"
STUDY_FILE, STUDY_INDEX, TASKS = "study.toml", "study.json", "tasks"
TASK_ADVICE = "Delete it to run the task again."
INDEX_ADVICE = "effsparse study run, with the study file, writes it again; finished tasks are kept."


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
        document = _read_json(self.path / "result.json")
        if document is not None and not _is_result(document):
            raise LoadError(f"{self.path / 'result.json'} is not the result of a task. {TASK_ADVICE}")
        return document

    def failure(self) -> TaskFailure | None:
        document = _read_json(self.path / "failure.json")
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
        fcntl = _locks()
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
    _locks()
    try:
        if not _can_be_study(path, study):
            raise UsageError(
                f"the folder {path} exists and is not the folder of a study. Choose another one with --folder."
            )
        _check_data(path, study)
        (path / TASKS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {path} cannot be created: {error.strerror or error}.") from error
    if not _is_copy(path, study):
        with replacing(path / STUDY_FILE) as temporary:
            temporary.write_bytes(study.text.encode())
    study = find_data_folder(path, study)
    document = {
        "schema_version": SCHEMA_VERSION,
        "study_file": os.path.relpath(_real(study.source), _real(path)),
        "data_relative_to": os.path.relpath(_real(study.folder), _real(path)),
        "tasks": [task_name(task) for task in tasks],
    }
    write_json(path / STUDY_INDEX, document)
    return _folder(path, study, tasks)


def _can_be_study(path: Path, study: Study) -> bool:
    """Whether a path is free, or the folder of a study: also of one that was stopped before it had a study.json."""
    if not path.is_dir():
        return not path.exists()
    # Read first: another run, which may start at the same time, writes study.json before its first task.
    begun = (path / TASKS).is_dir() and any((path / TASKS).iterdir())
    found = {each.name for each in path.iterdir() if not each.name.startswith(".")}
    if STUDY_INDEX in found or not found:
        return True
    if TASKS in found and STUDY_FILE in found:
        return (path / STUDY_FILE).read_bytes() == study.text.encode()
    return found == {TASKS} and not begun


def _check_data(path: Path, study: Study) -> None:
    """Refuse results with other data: tasks have the path of the data as it is written."""
    index: dict[str, Any] = {}
    with suppress(LoadError):
        index = _read_json(path / STUDY_INDEX) or {}
    if study.data["kind"] == "code" or "data_relative_to" not in index or _is_copy(path, study):
        return
    with suppress(EffsparseError):
        if _read_copy(path).data["path"] != study.data["path"]:
            return  # these are other tasks
    written = os.path.expanduser(study.data["path"])
    before, now = (
        os.path.normpath(folder / written) for folder in (_real(path) / str(index["data_relative_to"]), study.folder)
    )
    if os.path.exists(before) and os.path.exists(now) and not os.path.samefile(before, now):
        raise UsageError(f"the results in {path} are those of the data {before}, not {now}. Choose another --folder.")


def find_data_folder(path: Path, study: Study) -> Study:
    """Return the study, for the copy in `path` with what the original had: its own path, and the folder that its data
    is relative to. Both are relative to `path`, so that a study can move together with its data."""
    if not _is_copy(path, study):
        return study
    earlier = _read_json(path / STUDY_INDEX, INDEX_ADVICE) or {}
    folder, source = (
        _real(_real(path) / str(earlier[name])) if name in earlier else default
        for name, default in (("data_relative_to", study.folder), ("study_file", study.source))
    )
    return replace(study, folder=folder, source=source)


def _is_copy(path: Path, study: Study) -> bool:
    return study.source.name == STUDY_FILE and _real(study.source.parent) == _real(path)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def is_own_file(path: Path, target: Path) -> bool:
    """Whether a file belongs to the study in `path`: its study file and its data, too, wherever they are."""
    path = _real(path)
    own = [path / STUDY_FILE, path / STUDY_INDEX, path / TASKS]
    with suppress(EffsparseError):
        study = find_data_folder(path, _read_copy(path))
        own.append(study.source)
        data = _real(study.folder / os.path.expanduser(study.data["path"]))
        if study.data["kind"] != "code" and data not in path.parents:  # else a folder of everything
            own.append(data)
    target = _real(target)
    return not {target, *target.parents}.isdisjoint(map(_real, own))


def read_folder(path: Path, find_recipe: FindRecipe) -> StudyFolder:
    """Open the folder of a study without changing it."""
    document = _read_json(path / STUDY_INDEX, INDEX_ADVICE)
    if document is None:
        raise LoadError(f"{path} is not the folder of a study: it has no study.json. effsparse study run makes one.")
    study = find_data_folder(path, _read_copy(path))
    return _folder(path, study, expand_study(study, find_recipe))


def _read_copy(path: Path) -> Study:
    try:
        text = (path / STUDY_FILE).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path / STUDY_FILE} cannot be read: {error}.") from error
    return parse_study(text, path / STUDY_FILE)


def _folder(path: Path, study: Study, tasks: Sequence[StudyTask]) -> StudyFolder:
    folders = [TaskFolder(path / TASKS / task_name(task), task) for task in tasks]
    known = {each.name for each in folders}
    present = (path / TASKS).iterdir() if (path / TASKS).is_dir() else ()
    others = sorted(each for each in present if each.is_dir() and each.name not in known)
    return StudyFolder(path, study, tuple(folders), tuple(others))


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


def _read_json(path: Path, advice: str = TASK_ADVICE) -> dict[str, Any] | None:
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


def _locks() -> Any:
    try:
        import fcntl
    except ImportError as error:
        raise UsageError("effsparse study needs file locks (flock), which this system does not have.") from error
    return fcntl
