"""A file appears whole or not at all: it is written beside the target, synced, and renamed over it at the end. Nothing
that this run has read is overwritten."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path

from effsparse_cli import files
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.temporary import remove_leftovers, temporary_path

TORCH_WRITER = ("inline_container", "PytorchStreamWriter")
"""What torch.save's errors name, which it raises instead of an OSError."""
Check = Callable[[Path], None]
"""Reads what was written, before it gets its name, and raises if it is not what it should be."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None] = ()) -> None:
    """Check all outputs of a command by option, before any work is done, and remember them: no file that is read on
    the way may be one of them, and no two may be the same file."""
    given = {option: target for option, target in outputs.items() if target is not None}
    for option, target in given.items():
        check_target(target, option, [path for path in inputs if path is not None])
    for (first, one), (second, other) in combinations(given.items(), 2):
        if _same(one, other):
            raise UsageError(f"{first} and {second} both name {other}: give each a file of its own.")
    for option, target in given.items():
        files.declare_output(option, target)


def check_target(target: Path, option: str, inputs: Sequence[Path] = ()) -> None:
    """Refuse, before any work is done, a target that is an input or that cannot be written."""
    if any(_same(target, path) for path in inputs if os.path.exists(path)):
        raise UsageError(f"{option} {target} is the file being read, and an input is never overwritten. Name another.")
    _check_unread(target, option)
    if os.path.isdir(target):
        raise UsageError(f"{option} {target} is a folder. Give the name of a file in it.")
    real = Path(os.path.realpath(target))
    if os.path.islink(real):
        raise UsageError(f"{option} {target} is a link that leads back to itself. Name another file.")
    folder = real.parent
    if not os.path.isdir(folder):
        raise UsageError(f"{option} {target}: there is no folder {folder}. Make it first, or name another file.")
    places = [target] if _special(target) else [folder, *([real] if os.path.exists(real) else [])]
    if not all(os.access(place, os.W_OK) for place in places):
        raise UsageError(f"{option} {target} cannot be written: no permission. Name a place that you may write to.")


@contextmanager
def replacing(target: Path, check: Check | None = None) -> Iterator[Path]:
    """Give a temporary path to write to; it becomes the target when the block ends well and the check passes."""
    _check_all_unread(target)
    try:
        if _special(target):
            yield target
            return
        target = Path(os.path.realpath(target))
        _check_name(target)
        remove_leftovers(target.parent)
        temporary = temporary_path(target)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            yield temporary
            if check is not None:
                check(temporary)
            temporary.chmod(_mode(target))
            _sync(temporary)
            temporary.replace(target)
            files.allow_replacing(target)  # a check may have read it
            _sync(target.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}. Name another place.") from error
    except RuntimeError as error:
        if any(said in str(error) for said in TORCH_WRITER):
            raise UsageError(f"{target} cannot be written. Is the disk full? Name another place.") from error
        raise


@contextmanager
def new_folder(target: Path, check: Check | None = None) -> Iterator[Path]:
    """The same for a folder, which must not be there yet: give the path of one that does not exist."""
    _check_all_unread(target)
    try:
        target = Path(os.path.realpath(target))
        remove_leftovers(target.parent)
        temporary = temporary_path(target)
        try:
            yield temporary
            if check is not None:
                check(temporary)
            for file in temporary.rglob("*"):
                if not file.is_symlink():
                    _sync(file)
            _sync(temporary)
            temporary.rename(target)
            _sync(target.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}. Name another place.") from error


def _check_all_unread(target: Path) -> None:
    """Before the first output is written, all must be known to be safe: a run that fails has written nothing."""
    for option, declared in files.declared_outputs().items():
        _check_unread(declared, option)
    _check_unread(target, "the output")


def _check_unread(target: Path, option: str) -> None:
    read = files.read_as(target)
    if read is not None:
        same = "" if str(read) == str(target) else f" (the same file as {read})"
        raise UsageError(
            f"{option} {target}{same} was read in this run, and an input is never overwritten. Name another file."
        )


def _same(one: Path, other: Path) -> bool:
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other) and not _special(one)
    return os.path.realpath(one) == os.path.realpath(other)


def _special(target: Path) -> bool:
    """A pipe or a device cannot be replaced, only written to."""
    return os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target)


def _check_name(target: Path) -> None:
    """Raise an OSError for a name that no file can have, before anything is written."""
    with suppress(FileNotFoundError):
        os.lstat(target)


def _sync(path: Path) -> None:
    """To the disk, so that a rename never names a file whose content is lost when the power fails."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Windows opens no folders
    try:
        os.fsync(handle)
    except OSError:
        if os.path.isfile(path):
            raise
    finally:
        os.close(handle)


def _mode(target: Path) -> int:
    """What the file had before, or what any new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
