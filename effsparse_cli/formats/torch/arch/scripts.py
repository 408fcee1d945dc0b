"""A class that was pickled from a script is called `__main__.Net` in the file, and the script is not named. What it
could be is looked for in the current folder, as text: nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

MAIN = "__main__."
MOST_FILES, LARGEST_FILE = 500, 1 << 20


def script_advice(asked: Sequence[str], sources: Mapping[str, str]) -> str:
    """One sentence for the first class of a script among those that a file asks for, or nothing. `sources` are the
    files of classes, where the model's file names them."""
    name = next((name for name in asked if name.startswith(MAIN) and name.removeprefix(MAIN).isidentifier()), None)
    if name is None:
        return ""
    own = name.removeprefix(MAIN)
    script = _source(sources.get(name, "")) or _defining(own)
    if script is None:
        return (
            f" {own} was defined in the script that saved the file: --arch SCRIPT:{own}, run in the folder of "
            "SCRIPT.py, builds the model with it."
        )
    return f" {own} was defined in a script, probably {script}.py: --arch {script}:{own} builds the model with it."


def _source(file: str) -> str | None:
    """The module name of a source file of this or another machine."""
    path = PureWindowsPath(file) if "\\" in file else PurePosixPath(file)
    return path.stem if path.suffix == ".py" and path.stem.isidentifier() else None


def _defining(name: str) -> str | None:
    """The first module of the current folder that defines a class of that name."""
    pattern = re.compile(rf"^class\s+{re.escape(name)}\b", re.MULTILINE)
    for file in sorted(Path.cwd().glob("*.py"))[:MOST_FILES]:
        try:
            small = file.is_file() and file.stat().st_size <= LARGEST_FILE
            if small and file.stem.isidentifier() and pattern.search(file.read_text("utf-8", errors="replace")):
                return file.stem
        except OSError:
            continue
    return None
