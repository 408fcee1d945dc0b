"""Find the models that a user names: files as they are, folders and patterns searched, in a stable order.

The caller defines what a model is: `looks_like_model` for files, `weights_of` for folders. Names do not matter.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from effsparse_cli import files


@dataclass(frozen=True)
class ModelSearch:
    """The result of a search. `empty` are the folders and patterns without a model, each with the reason."""

    models: tuple[Path, ...]
    empty: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ModelFinder:
    """`weights_of` returns the weight files of a model folder, None for any other folder. Searches skip files that
    match `exclude` (paths relative to the searched folder, or names)."""

    looks_like_model: Callable[[Path], bool]
    weights_of: Callable[[Path], list[Path] | None]
    exclude: Sequence[str] = ()
    problems: list[tuple[str, str]] = field(default_factory=list)

    def find(self, named: Sequence[str]) -> ModelSearch:
        """Return each model once. A weight file of a model folder stands for the folder, so shards are never models."""
        by_real_path: dict[Path, Path] = {}
        empty: list[tuple[str, str]] = []
        for name in named:
            models = self._named(name)
            if not models:
                reason = "no model in this folder" if os.path.isdir(name) else "no file matches this pattern"
                empty.append((name, reason))
            for model in models:
                by_real_path.setdefault(_real(model), model)
        for model in list(by_real_path.values()):
            for weights in self._weights(model):
                by_real_path.pop(_real(weights), None)
        return ModelSearch(tuple(by_real_path.values()), (*empty, *self.problems))

    def _named(self, name: str) -> list[Path]:
        path = Path(name)
        if os.path.isdir(path):
            return self._in_folder(path)
        if os.path.exists(path) or not glob.has_magic(name):
            return [self._folder_or_file(path)]
        matches = [Path(match) for match in sorted(glob.glob(name, recursive=True))]
        return [model for match in matches for model in self._matched(match)]

    def _matched(self, match: Path) -> list[Path]:
        return self._in_folder(match) if os.path.isdir(match) else [self._folder_or_file(match)]

    def _folder_or_file(self, file: Path) -> Path:
        """Return the model folder that a weight file belongs to, else the file."""
        weights = self.weights_of(file.parent) or []
        return file.parent if _real(file) in map(_real, weights) else file

    def _weights(self, model: Path) -> list[Path]:
        return (self.weights_of(model) or []) if os.path.isdir(model) else []

    def _in_folder(self, folder: Path) -> list[Path]:
        if self.weights_of(folder) is not None:
            # A model folder may contain other models, such as an export in a subfolder.
            return [folder, *self._search(folder)]
        return list(self._search(folder))

    def _search(self, folder: Path) -> Iterator[Path]:
        """Search a folder and its subfolders; results are sorted by path. Hidden files and folders are skipped, because
        caches and version control keep copies there. Links to folders are followed once, and never upwards."""
        seen = {files.identity_of(place) for place in (_real(folder), *_real(folder).parents)}
        models: list[Path] = []
        waiting = [folder]
        while waiting:
            for entry in self._entries(waiting.pop(), folder):
                if not os.path.isdir(entry):
                    models += [entry] if self.looks_like_model(entry) else []
                elif (identity := files.identity_of(entry)) not in seen:
                    seen.add(identity)
                    models += [entry] if self.weights_of(entry) is not None else []
                    waiting.append(entry)
        yield from sorted(models)

    def _entries(self, folder: Path, top: Path) -> list[Path]:
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            self.problems.append((str(folder), f"the folder cannot be read: {error.strerror or error}"))
            return []
        shown = [entry for entry in entries if not entry.name.startswith(".") and entry.name != "__pycache__"]
        return [entry for entry in shown if not self._is_excluded(entry, top)]

    def _is_excluded(self, entry: Path, top: Path) -> bool:
        path = entry.relative_to(top).as_posix()
        return any(fnmatchcase(path, pattern) or fnmatchcase(entry.name, pattern) for pattern in self.exclude)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
