"""What a project says once, in effsparse.toml or pyproject.toml's [tool.effsparse]: its model and input shape."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effsparse_cli.errors import UsageError

KEYS = ("model", "input-shape", "check", "models")
"""The last two are tables that `effsparse check` reads."""


@dataclass(frozen=True)
class Config:
    """`model` stands relative to the file that names it."""

    model: Path | None = None
    input_shape: tuple[str, ...] = ()


def find_model(given: Path | None, shapes: list[str] | None) -> tuple[Path, list[str]]:
    """What the command line says, or else the project. A shape that the project names is that of its model."""
    if given is not None:
        return given, shapes or []
    config = read_config(Path.cwd())
    if config.model is None:
        raise UsageError(
            'no MODEL given, and no project file names one. Give the model\'s file, or write model = "FILE" under '
            "[tool.effsparse] in pyproject.toml, or into effsparse.toml"
        )
    return config.model, shapes or list(config.input_shape)


def read_config(folder: Path) -> Config:
    """The nearest that says anything, from this folder upwards; effsparse.toml comes before pyproject.toml."""
    for place in (folder, *folder.parents):
        for name in ("effsparse.toml", "pyproject.toml"):
            file = place / name
            if file.is_file() and (section := _section(file)) is not None:
                return _checked(file, section)
    return Config()


def _section(file: Path) -> Mapping[str, Any] | None:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    if file.name == "effsparse.toml":
        return content
    section = content.get("tool", {}).get("effsparse")
    if section is not None and not isinstance(section, dict):
        raise UsageError(f'{file}: tool.effsparse is no table. Write [tool.effsparse], and below it model = "FILE"')
    return section


def _checked(file: Path, section: Mapping[str, Any]) -> Config:
    for key in section:
        if key not in KEYS:
            close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0)
            raise UsageError(f"{file}: there is no key {key!r}; did you mean {close[0]!r}? Known: {', '.join(KEYS)}")
    model, shape = section.get("model"), section.get("input-shape", [])
    if isinstance(shape, list) and shape and all(isinstance(size, int) for size in shape):
        shape = ",".join(map(str, shape))
    shapes = [shape] if isinstance(shape, str) else shape
    if not isinstance(model, str | None) or not isinstance(shapes, list) or not all(isinstance(s, str) for s in shapes):
        raise UsageError(f'{file}: model and input-shape are texts, for example model = "model.pt"')
    return Config(file.parent / model if model else None, tuple(shapes))
