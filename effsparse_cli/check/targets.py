"""What a user names in, model files out: files as they are, folders and patterns searched, in a stable order."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".onnx", ".pt", ".pt2", ".pth", ".ckpt")
"""Files that a folder is searched for. Files that are named are read whatever they are called."""


@dataclass(frozen=True)
class Targets:
    """`empty` are folders and patterns in which there is no model, each with what is wrong."""

    models: tuple[Path, ...]
    empty: tuple[tuple[str, str], ...] = ()


def find_targets(named: Sequence[str]) -> Targets:
    models: dict[Path, Path] = {}
    empty: list[tuple[str, str]] = []
    for name in named:
        found = _models(name)
        if not found:
            what = "no model in this folder" if Path(name).is_dir() else "no file matches this pattern"
            empty.append((name, f"{what}; looked for {', '.join(SUFFIXES)}" if Path(name).is_dir() else what))
        for path in found:
            models.setdefault(path.resolve(), path)
    return Targets(tuple(models.values()), tuple(empty))


def _models(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        return _in_folder(path)
    if path.exists() or not glob.has_magic(name):
        return [path]
    found = [Path(match) for match in sorted(glob.glob(name, recursive=True))]
    return [model for match in found for model in (_in_folder(match) if match.is_dir() else [match])]


def _in_folder(folder: Path) -> list[Path]:
    """Hidden files and folders are left out: caches and version control keep copies there."""
    files = (file for file in sorted(folder.rglob("*")) if file.suffix.lower() in SUFFIXES and file.is_file())
    return [file for file in files if not any(part.startswith(".") for part in file.relative_to(folder).parts)]
