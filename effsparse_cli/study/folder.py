"""The folder of a study: plain files that are readable without this tool.

study.toml            the study file
study.json            where it came from, and its tasks
tasks/NAME-HASH/      the folder of each task
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from effsparse_cli.errors import EffsparseError, LoadError, UsageError
from effsparse_cli.formats.writing.atomic import replacing
from effsparse_cli.study.file import FindRecipe, Study, expand_study, parse_study
from effsparse_cli.study.task import StudyTask, task_name
from effsparse_cli.study.task_folder import SCHEMA_VERSION, TaskFolder, find_locks, read_json, write_json

STUDY_FILE, STUDY_INDEX, TASKS = "study.toml", "study.json", "tasks"
INDEX_ADVICE = "effsparse study run, with the study file, writes it again; finished tasks are kept."


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
    find_locks()
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
        index = read_json(path / STUDY_INDEX) or {}
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
    earlier = read_json(path / STUDY_INDEX, INDEX_ADVICE) or {}
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
        if study.data["kind"] != "code" and data not in path.parents:  # unless the study lies within its data
            own.append(data)
    target = _real(target)
    return not {target, *target.parents}.isdisjoint(map(_real, own))


def read_folder(path: Path, find_recipe: FindRecipe) -> StudyFolder:
    """Open the folder of a study without changing it."""
    document = read_json(path / STUDY_INDEX, INDEX_ADVICE)
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
