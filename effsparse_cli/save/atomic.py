"""A file appears whole or not at all: it is written beside the target and renamed over it at the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from effsparse_cli.errors import UsageError

Check = Callable[[Path], None]
"""Reads what was written, before it gets its name, and raises where it is not what it should be."""


def check_target(target: Path, option: str, inputs: Sequence[Path] = ()) -> None:
    """Refuses, before any work is done, a target that is an input or that cannot be written."""
    if any(os.path.exists(target) and os.path.exists(path) and target.samefile(path) for path in inputs):
        raise UsageError(f"{option} {target} is the file being read, and an input is never overwritten. Name another.")
    if os.path.isdir(target):
        raise UsageError(f"{option} {target} is a folder. Give the name of a file in it.")
    folder = target.parent
    if not folder.is_dir():
        raise UsageError(f"{option} {target}: there is no folder {folder}. Make it first, or name another file.")
    if not os.access(target if _special(target) else folder, os.W_OK):
        raise UsageError(f"{option} {target} cannot be written: no permission. Name a place that you may write to.")


@contextmanager
def replacing(target: Path, check: Check | None = None) -> Iterator[Path]:
    """Gives a temporary path to write to; it becomes the target when the block ends well and the check passes."""
    try:
        if _special(target):
            yield target
            return
        target = target.resolve()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            if check is not None:
                check(temporary)
            temporary.chmod(_mode(target))
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}. Name another place.") from error


def _special(target: Path) -> bool:
    """A pipe or a device cannot be replaced, only written to."""
    return os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target)


def _mode(target: Path) -> int:
    """What the file had before, or what any new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
