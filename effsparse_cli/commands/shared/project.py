"""Read the project file, effsparse.toml or [tool.effsparse] in pyproject.toml: the project's model, and the checks of
its models."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effsparse_cli import files
from effsparse_cli.errors import UsageError

if TYPE_CHECKING:
    from effsparse_cli.commands.options.load import LoadArguments
    from effsparse_cli.formats.options import LoadOptions

LARGEST = 1 << 24
NAMES = ("effsparse.toml", "pyproject.toml")


@dataclass(frozen=True)
class Project:
    """`file` is None if there is no project file. Paths are relative to its folder, except `model`, which is relative
    to the working directory."""

    file: Path | None = None
    model: Path | None = None
    input_shape: tuple[str, ...] = ()
    check: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.file.parent if self.file is not None else Path()

    def place(self, path: str | Path, key: str, trust: bool) -> Path:
        """Resolve a path of the project file. Without --trust it must stay in the project's folder."""
        placed = self.folder / path
        if not trust and not Path(os.path.abspath(placed)).is_relative_to(os.path.abspath(self.folder)):
            raise UsageError(
                f"{self.file}: {key} = {str(path)!r} leads out of the project's folder. Name the file on the command "
                "line, or add --trust if you trust this project file."
            )
        return placed

    def check_load_options(self, asked: Mapping[str, Any], given: Mapping[str, Any], trust: bool) -> None:
        """Refuse what only the user may ask for: running code, and reading files elsewhere. A project file may come
        from a pull request."""
        arch = asked.get("arch", "")
        if not trust and "arch" not in given and ":" in arch:
            raise UsageError(
                f"{self.file}: arch = {arch!r} runs code. Give --arch on the command line, or add --trust if you trust "
                "this project file."
            )
        if "masks" in asked and "masks" not in given:
            self.place(asked["masks"], "masks", trust)

    def tables_for(self, model: Path) -> list[Mapping[str, Any]]:
        return [self.check, *(table for pattern, table in self.models.items() if self._names(pattern, model))]

    def unmatched(self, models: Iterable[Path]) -> list[str]:
        """Return the patterns of [models] that match none of the models."""
        known = list(models)
        return [pattern for pattern in self.models if not any(self._names(pattern, model) for model in known)]

    def _names(self, pattern: str, model: Path) -> bool:
        """Match a path relative to the project file's folder, or a file name anywhere."""
        path = Path(os.path.relpath(model.parent.resolve() / model.name, self.folder.resolve())).as_posix()
        return fnmatchcase(path, pattern) or fnmatchcase(model.name, pattern)


def find_model(given: Path | None, load_arguments: LoadArguments) -> tuple[Path, LoadOptions]:
    """Return the model of the command line, else that of the project, with the project's input shape."""
    if given is not None:
        return given, load_arguments.options()
    project = find_project(Path.cwd(), None)
    if project.model is not None:
        project.place(project.model, "model", load_arguments.trust)
    if project.model is None:
        raise UsageError(
            'no MODEL given, and no project file names one. Give the model\'s file, or write model = "FILE" under '
            "[tool.effsparse] in pyproject.toml, or into effsparse.toml."
        )
    shape = load_arguments.input_shape or list(project.input_shape)
    return project.model, replace(load_arguments, input_shape=shape).options()


def find_project(folder: Path, given: Path | None) -> Project:
    """Read the given file, or the nearest project file in `folder` and its parents."""
    if given is not None:
        section = _section(given)
        if section is None:
            raise UsageError(f"--config {given} has no table [tool.effsparse].")
        return _project(given, section)
    for place in (folder, *folder.parents):
        for name in NAMES:
            if (place / name).is_file() and (section := _section(place / name)) is not None:
                return _project(place / name, section)
    return Project()


def _section(file: Path) -> Any:
    """Return [tool.effsparse], or the whole file if it has no [tool]."""
    try:
        files.note_read(file, UsageError)
        if file.stat().st_size > LARGEST:
            raise UsageError(f"{file} is too large for a project file.")
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not valid TOML: {str(error)[:200] or type(error).__name__}.") from error
    if "tool" in content or file.name == "pyproject.toml":
        from effsparse_cli.checks.keys import check_table

        tools = content.get("tool", {})
        return check_table(tools, None, f"{file}, tool").get("effsparse")
    return content


def _project(file: Path, section: Any) -> Project:
    # Imported here: a model that is named on the command line needs no project file.
    from effsparse_cli.checks.keys import check_table, sizes, text
    from effsparse_cli.checks.settings import read_tables

    def table(value: Any, where: str) -> Any:
        return value

    keys = {"model": text, "input-shape": sizes, "check": table, "models": table}
    found = check_table(section, keys, str(file))
    check, models = read_tables(found, str(file))
    check = _placed(check, file)
    models = {pattern: _placed(table, file) for pattern, table in models.items()}
    model, shape = found.get("model"), found.get("input-shape", ())
    if model is None:
        return Project(file, check=check, models=models)
    # The project's one model is a model like any other, with the shape that is given beside it.
    check = {"paths": (model,), **check}
    models = {Path(model).as_posix(): {"input-shape": shape}} | models if shape else models
    return Project(file, file.parent / model, shape, check, models)


def _placed(table: dict[str, Any], file: Path) -> dict[str, Any]:
    """Resolve the path of masks against the project file's folder."""
    return table | {"masks": file.parent / table["masks"]} if "masks" in table else table
