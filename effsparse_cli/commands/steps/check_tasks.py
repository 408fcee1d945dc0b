"""Build the tasks of `effsparse check`: the models to check, and for each its settings, baseline and limits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from effsparse_cli import files
from effsparse_cli.checks.baseline import BaselineModel, baseline_key, read_baseline
from effsparse_cli.checks.judge import select_rules
from effsparse_cli.checks.rules import load_rules
from effsparse_cli.checks.search import ModelFinder, ModelSearch
from effsparse_cli.checks.settings import Settings, build_settings
from effsparse_cli.commands.options.load import LoadArguments
from effsparse_cli.commands.shared.output import note
from effsparse_cli.commands.shared.project import Project
from effsparse_cli.commands.steps.check_model import CheckTask
from effsparse_cli.errors import UsageError
from effsparse_cli.execution.engine import Limits
from effsparse_cli.formats.discover import folder_weights, looks_like_model

MIN_MEMORY, MEMORY_PER_BYTE = 2 << 30, 6
MIN_SECONDS, BYTES_PER_SECOND = 30, 1e6
"""Default limits of a model, by its size on disk."""


def find_models(
    models: list[str] | None, project: Project, exclude: Sequence[str], load_arguments: LoadArguments
) -> ModelSearch:
    # Paths in a project file are relative to its folder, and shown relative to the current one.
    paths = () if models else project.check.get("paths", ())
    named = models or [os.path.relpath(project.resolve(path, "paths", load_arguments.trust)) for path in paths]
    if not named:
        raise UsageError("no MODEL given, and no project file has check.paths. Name files, folders or patterns.")
    tables = (project.check, *project.models.values())
    mask_files = {
        files.identity_of(path) for path in (load_arguments.masks, *(table.get("masks") for table in tables)) if path
    }

    def is_model(path: Path) -> bool:
        return files.identity_of(path) not in mask_files - {None} and looks_like_model(path)

    return ModelFinder(is_model, folder_weights, exclude).find(named)


def baseline_file(given: Path | None, project: Project, written: Path | None, trust: bool) -> Path | None:
    """Return the baseline to compare with. A run that replaces the project's baseline does not compare with it."""
    own = project.check.get("baseline")
    if given is not None or own is None:
        return given
    file = project.resolve(own, "baseline", trust)
    return None if written is not None and os.path.realpath(written) == os.path.realpath(file) else file


def build_tasks(
    search: ModelSearch, project: Project, given: Mapping[str, Any], trust: bool, baseline: Path | None
) -> list[CheckTask]:
    for pattern in project.unmatched(search.models):
        note(f'[models."{pattern}"] of {project.file} matches none of these models')
    entries: Mapping[str, BaselineModel] = {}
    if baseline is not None:
        entries = read_baseline(files.note_read(baseline, UsageError, "the baseline"))
    tasks = []
    for model in search.models:
        settings = build_settings([*project.tables_for(model), given])
        select_rules(load_rules(), settings.select, settings.ignore)
        project.check_load_options(settings.load_arguments, given, trust)
        options = LoadArguments(**settings.load_arguments, trust=trust).options()
        entry = entries.get(baseline_key(str(model), baseline)) if baseline is not None else None
        limits = _limits(model, settings, search.models)
        tasks.append(
            CheckTask(
                model=model,
                options=options,
                settings=settings,
                baseline=entry,
                against_baseline=baseline is not None,
                limits=limits,
            )
        )
    return tasks


def _limits(model: Path, settings: Settings, models: Sequence[Path]) -> Limits:
    """Return the limits from the settings, or by size on disk. An ONNX model may store its weights in any file next to
    it."""
    size = _size(model)
    if model.suffix == ".onnx":
        others = [other for other in models if other.parent == model.parent and os.path.isfile(other)]
        size = max(size, size + _size(model.parent) - sum(map(_size, others)))
    memory = MIN_MEMORY + MEMORY_PER_BYTE * size if settings.memory_limit is None else settings.memory_limit
    seconds = MIN_SECONDS + size / BYTES_PER_SECOND if settings.time_limit is None else settings.time_limit
    return Limits(memory, seconds, 2 * size)


def _size(path: Path) -> int:
    try:
        parts = path.iterdir() if os.path.isdir(path) else (path,)
        return sum(os.stat(file).st_size for file in parts if os.path.isfile(file))
    except OSError:
        return 0
