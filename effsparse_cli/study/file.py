"""Read a study file (TOML): a model, data, methods, compressions and seeds, checked and expanded to tasks.

`schema.json` in this folder describes the same file for editors.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from effsparse_cli import files
from effsparse_cli.checks.keys import check_table
from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.pruning import GLOBAL
from effsparse_cli.study.keys import DATA_KEYS, IMAGE_KEYS, MAX_TASKS, METHOD_KEYS, RECIPE_KEYS, STUDY_KEYS, code
from effsparse_cli.study.methods import METHODS, Method
from effsparse_cli.study.phases import default_options
from effsparse_cli.study.task import StudyTask, task_id

MAX_SIZE = 1 << 24

FindRecipe = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Returns the training recipe of a model, with some values changed."""


@dataclass(frozen=True)
class MethodChoice:
    """One entry of `methods`, with everything that it leaves to the study filled in."""

    method: str
    lsqs: tuple[str, ...]
    when: str
    compressions: tuple[float, ...]
    effective: bool
    seeds: tuple[int, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Study:
    """A checked study file. `folder` is the one that paths in `data` are relative to, `source` the path of the file."""

    text: str
    source: Path
    folder: Path
    title: str
    model: str
    data: Mapping[str, Any]
    methods: tuple[MethodChoice, ...]
    recipe: Mapping[str, Any]
    compact: bool

    @property
    def runs_code(self) -> bool:
        """Whether the study names code to run, which a user must allow."""
        return ":" in self.model or self.data["kind"] == "code"


def read_study(path: Path) -> Study:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder, not a study file. The folder of a study has one: study.toml.")
        with open(files.note_read(path), "rb") as file:
            raw = file.read(MAX_SIZE + 1)
        if len(raw) > MAX_SIZE:
            raise LoadError(f"{path} is larger than 16 MB: this is not a study file.")
        content = raw.decode("utf-8-sig")
    except OSError as error:
        raise LoadError(f"the study file {path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise LoadError(f"{path} is not a study file: it is not UTF-8 text.") from error
    return parse_study(content, path)


def parse_study(content: str, path: Path) -> Study:
    """Check a study file from this path."""
    where, source = str(path), Path(os.path.abspath(path))
    try:
        document = tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid TOML: {error}.") from error
    for name in ("data", "recipe"):
        inside = document.get(name)
        moved = [key for key in STUDY_KEYS if key in inside] if isinstance(inside, dict) else []
        if moved:
            raise UsageError(f"{where}, [{name}]: {moved[0]!r} belongs to the study: move it above [{name}].")
    table = check_table(document, STUDY_KEYS, where)
    for key in ("model", "data", "methods"):
        if key not in table:
            raise UsageError(f"{where}: {key!r} is missing. effsparse study init writes a complete study file.")
    model, data = table["model"], check_table(table["data"], DATA_KEYS, f"{where}, [data]")
    for key in ("kind", "path"):
        if key not in data:
            raise UsageError(f"{where}, [data]: {key!r} is missing.")
    unused = [key for key in IMAGE_KEYS if key in data]
    if unused and data["kind"] != "images":
        raise UsageError(f"{where}, [data]: {unused[0]!r} is for folders of images, not for {data['kind']}: remove it.")
    if data["kind"] == "code":
        code(data["path"], f"{where}, [data], path")
    common = _levels(table, where)
    methods = [_method(each, table, common, f"{where}, methods[{i}]") for i, each in enumerate(table["methods"])]
    return Study(
        text=content,
        folder=source.parent,
        source=source,
        title=table.get("title", ""),
        model=model,
        data=data,
        methods=tuple(methods),
        recipe=check_table(table.get("recipe", {}), RECIPE_KEYS, f"{where}, [recipe]"),
        compact=table.get("compact", False),
    )


def expand_study(study: Study, find_recipe: FindRecipe) -> list[StudyTask]:
    """Return all tasks of a study, each once, in the order of the file: methods, quotas, compressions, seeds."""
    number = sum(len(each.lsqs) * len(each.compressions) * len(each.seeds) for each in study.methods)
    if number > MAX_TASKS:
        raise UsageError(f"the study has {number:,} tasks; at most {MAX_TASKS:,} are possible.")
    recipe = find_recipe(study.model, study.recipe)
    tasks = (
        StudyTask(
            model=study.model,
            data=study.data,
            method=each.method,
            lsq=lsq,
            compression=compression,
            effective=each.effective,
            when=each.when,
            seed=seed,
            recipe=recipe,
            options=each.options,
            compact=study.compact and each.method != "dense",
        )
        for each in study.methods
        for lsq in each.lsqs
        for compression in each.compressions
        for seed in each.seeds
    )
    return list({task_id(task): task for task in map(without_defaults, tasks)}.values())


def without_defaults(task: StudyTask) -> StudyTask:
    """Return the task without options that have their default value: the result is the same."""
    defaults = default_options(task)
    options = {
        name: value for name, value in task.options.items() if isinstance(value, bool) or value != defaults.get(name)
    }
    return replace(task, options=options)


def locate_data(task: StudyTask, folder: Path) -> StudyTask:
    """Return the task with the absolute path of its data. The hash has the path as written, so that a study and its
    data can move together."""
    if task.data["kind"] == "code":
        return task
    path = os.path.abspath(folder / os.path.expanduser(task.data["path"]))
    return replace(task, data={**task.data, "path": path})


def _method(entry: Any, study: Mapping[str, Any], common: tuple[float, ...], where: str) -> MethodChoice:
    table = check_table({"method": entry} if isinstance(entry, str) else entry, METHOD_KEYS, where)
    if "method" not in table:
        raise UsageError(f"{where}: 'method' is missing.")
    name = table["method"]
    method = METHODS[name]
    dense = name == "dense"
    if not method.lsq and "lsq" in table:
        raise UsageError(f"{where}: {name} takes no layerwise quota: remove 'lsq'.")
    when = table.get("when", method.when[0])
    if when not in method.when:
        raise UsageError(f"{where}, when: {when!r} is not possible for {name}: use {_either(method.when)}.")
    effective = table.get("effective", study.get("effective", method.effective))
    if effective and not method.effective:
        raise UsageError(f"{where}: {name} supports only direct targets: add effective = false to this method.")
    if dense and ("compressions" in table or "sparsities" in table):
        raise UsageError(f"{where}: dense is not pruned: remove 'compressions' and 'sparsities'.")
    levels = (1.0,) if dense else _levels(table, where) or common
    if not levels:
        raise UsageError(f"{where}: no compressions: set them for the study, or for this method.")
    return MethodChoice(
        method=name,
        lsqs=tuple(_quota(lsq, method) for lsq in table.get("lsq", ("",))),
        when=when,
        compressions=levels,
        effective=effective and not dense,
        seeds=table.get("seeds", study.get("seeds", (0,))),
        options=table.get("options", {}),
    )


def _quota(lsq: str, method: Method) -> str:
    """Return the quota of a task: the method's default if none is given. A default of `global` is stored as an empty
    string."""
    found = lsq or method.lsq
    return "" if found == method.lsq == GLOBAL else found


def _levels(table: Mapping[str, Any], where: str) -> tuple[float, ...]:
    if "compressions" in table and "sparsities" in table:
        raise UsageError(f"{where}: use either 'compressions' or 'sparsities', not both.")
    levels: tuple[float, ...] = table.get("compressions") or table.get("sparsities") or ()
    return levels


def _either(names: Sequence[str]) -> str:
    return " or ".join(repr(name) for name in names)
