"""Find the script that defined a pickled class. The file only says `__main__.Net`, so scripts in the current folder are
searched as text; nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

MAIN = "__main__."
MAX_FILES, MAX_FILE_SIZE = 500, 1 << 20


def suggest_script(names: Sequence[str], sources: Mapping[str, str]) -> str:
    """Return a sentence about the first class of a script among `names`, or nothing. `sources` are the source files of
    classes where the model file states them."""
    name = next((name for name in names if name.startswith(MAIN) and name.removeprefix(MAIN).isidentifier()), None)
    if name is None:
        return ""
    own = name.removeprefix(MAIN)
    script = _module_name(sources.get(name, "")) or _find_definition(own)
    if script is None:
        return (
            f" {own} was defined in the script that saved the file. To build the model with it, pass "
            f"--arch SCRIPT:{own} in the folder of SCRIPT.py."
        )
    return f" {own} was defined in a script, probably {script}.py. To build the model, pass --arch {script}:{own}."


def _module_name(file: str) -> str | None:
    """Return the module name of a source file, possibly of another machine."""
    path = PureWindowsPath(file) if "\\" in file else PurePosixPath(file)
    return path.stem if path.suffix == ".py" and path.stem.isidentifier() else None


def _find_definition(name: str) -> str | None:
    """Return the first module in the current folder that defines the class."""
    pattern = re.compile(rf"^class\s+{re.escape(name)}\b", re.MULTILINE)
    for file in sorted(Path.cwd().glob("*.py"))[:MAX_FILES]:
        try:
            small = file.is_file() and file.stat().st_size <= MAX_FILE_SIZE
            if small and file.stem.isidentifier() and pattern.search(file.read_text("utf-8", errors="replace")):
                return file.stem
        except OSError:
            continue
    return None
