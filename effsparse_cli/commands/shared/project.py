"""Read the project file, effsparse.toml or [tool.effsparse] in pyproject.toml: the default model, and the settings of
`effsparse check`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effsparse_cli import files
from effsparse_cli.api.models import FileToOpen
from effsparse_cli.errors import UsageError

if TYPE_CHECKING:
    from effsparse_cli.commands.options.load import LoadArguments

MAX_SIZE = 1 << 24
NAMES = ("effsparse.toml", "pyproject.toml")


@dataclass(frozen=True)
class Project:
    """`file` is None without a project file. Paths are relative to the folder of the project file, except `model`,
    which is relative to the current folder."""

    file: Path | None = None
    model: Path | None = None
    input_shape: tuple[str, ...] = ()
    check: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.file.parent if self.file is not None else Path()

    def resolve(self, path: str | Path, key: str, trust: bool) -> Path:
        """Resolve a path of the project file. Without --trust it must be inside the project's folder."""
        resolved = self.folder / path
        if not trust and not Path(os.path.abspath(resolved)).is_relative_to(os.path.abspath(self.folder)):
            raise UsageError(
                f"{self.file}: {key} = {str(path)!r} is outside the project's folder. Name the file on the command "
                "line, or add --trust if you trust this project file."
            )
        return resolved

    def check_load_options(self, options: Mapping[str, Any], given: Mapping[str, Any], trust: bool) -> None:
        """Refuse what only the user may allow, not the project file: running code, and reading files outside the
        project. A pull request can add a project file."""
        arch = options.get("arch", "")
        if not trust and "arch" not in given and ":" in arch:
            raise UsageError(
                f"{self.file}: arch = {arch!r} runs code. Give --arch on the command line, or add --trust if you trust "
                "this project file."
            )
        if "masks" in options and "masks" not in given:
            self.resolve(options["masks"], "masks", trust)

    def tables_for(self, model: Path) -> list[Mapping[str, Any]]:
        return [self.check, *(table for pattern, table in self.models.items() if self._matches(pattern, model))]

    def unmatched(self, models: Iterable[Path]) -> list[str]:
        """Return the patterns of [models] that match none of these models."""
        known = list(models)
        return [pattern for pattern in self.models if not any(self._matches(pattern, model) for model in known)]

    def _matches(self, pattern: str, model: Path) -> bool:
        """Match a path relative to the project file's folder, or a file name in any folder."""
        path = Path(os.path.relpath(model.parent.resolve() / model.name, self.folder.resolve())).as_posix()
        return fnmatchcase(path, pattern) or fnmatchcase(model.name, pattern)


def find_model(given: Path | None, load_arguments: LoadArguments) -> FileToOpen:
    """Return the model given on the command line, or else that of the project with its input shape."""
    if given is not None:
        return FileToOpen(given, load_arguments.options())
    project = find_project(Path.cwd(), None)
    if project.model is not None:
        project.resolve(project.model, "model", load_arguments.trust)
    if project.model is None:
        raise UsageError(
            'no MODEL given, and no project file names one. Give a model file, or write model = "FILE" under '
            "[tool.effsparse] in pyproject.toml or in effsparse.toml."
        )
    shape = load_arguments.input_shape or list(project.input_shape)
    return FileToOpen(project.model, replace(load_arguments, input_shape=shape).options())


def find_project(folder: Path, given: Path | None) -> Project:
    """Read the given project file, or the nearest one in this folder or its parents."""
    if given is not None:
        section = _section(given)
        if section is None:
            raise UsageError(f"--config {given} has no table [tool.effsparse].")
        return _project(given, section)
    for parent in (folder, *folder.parents):
        for name in NAMES:
            if (parent / name).is_file() and (section := _section(parent / name)) is not None:
                return _project(parent / name, section)
    return Project()


def _section(file: Path) -> Any:
    """Return [tool.effsparse], or the whole file if it has no [tool]."""
    try:
        files.note_read(file, UsageError)
        if file.stat().st_size > MAX_SIZE:
            raise UsageError(f"{file} is too large for a project file.")
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
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

    def unchecked(value: Any, where: str) -> Any:
        return value

    table = check_table(
        section, {"model": text, "input-shape": sizes, "check": unchecked, "models": unchecked}, str(file)
    )
    check, models = read_tables(table, str(file))
    check = _with_masks_path(check, file)
    models = {pattern: _with_masks_path(each, file) for pattern, each in models.items()}
    model, shape = table.get("model"), table.get("input-shape", ())
    if model is None:
        return Project(file, check=check, models=models)
    # The default model is also checked, with the input shape given for it.
    check = {"paths": (model,), **check}
    models = {Path(model).as_posix(): {"input-shape": shape}} | models if shape else models
    return Project(file, file.parent / model, shape, check, models)


def _with_masks_path(table: dict[str, Any], file: Path) -> dict[str, Any]:
    """Make the path of masks relative to the project file's folder, like all its paths."""
    return table | {"masks": file.parent / table["masks"]} if "masks" in table else table
