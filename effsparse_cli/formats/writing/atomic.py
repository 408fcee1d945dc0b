"""Atomic writes: a file is written next to the target, synced, and renamed over it at the end. Nothing that this run
has read is overwritten. Temporary files are recognizable by name, and removed by a later run if theirs was killed."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path

from effsparse_cli import files
from effsparse_cli.errors import UsageError, WriteError

TORCH_WRITER = ("inline_container", "PytorchStreamWriter", "iostream error")
"""Names in the errors that torch.save raises instead of an OSError."""
Check = Callable[[Path], None]
"""Reads what was written, before it is renamed, and raises if it is wrong."""


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Sequence[Path | None] = (), *, force: bool = False
) -> None:
    """Check all outputs of a command by option, before any work is done.

    No two may be the same file, and without `force` none may replace a model. They are remembered, so that a file that
    is read later cannot be one of them.
    """
    given = {option: target for option, target in outputs.items() if target is not None}
    for option, target in given.items():
        check_target(target, option, [path for path in inputs if path is not None])
        if not force and _is_model(target):
            raise UsageError(
                f"{option} {target} is an existing model. Choose another file, or add --force to replace it."
            )
    for (first, one), (second, other) in combinations(given.items(), 2):
        if _same(one, other):
            raise UsageError(f"{first} and {second} are both {other}: use different files.")
    for option, target in given.items():
        files.declare_output(option, target)


def _is_model(target: Path) -> bool:
    from effsparse_cli.formats.discover import looks_like_model

    if not os.path.isfile(target) or not os.path.getsize(target):
        return False
    with files.one_run():  # looking at the file is not reading it
        return looks_like_model(target)


def check_target(target: Path, option: str, inputs: Sequence[Path] = ()) -> None:
    """Raise UsageError for a target that is an input or cannot be written, before any work is done."""
    if any(_same(target, path) for path in inputs if os.path.exists(path)):
        raise UsageError(f"{option} {target} is an input, and inputs are never overwritten. Choose another file.")
    _check_unread(target, option)
    if os.path.isdir(target):
        raise UsageError(f"{option} {target} is a folder. Choose a file in it.")
    real = Path(os.path.realpath(target))
    if os.path.islink(real):
        raise UsageError(f"{option} {target} is a link that points to itself. Choose another file.")
    folder = real.parent
    if not os.path.isdir(folder):
        raise UsageError(f"{option} {target}: folder {folder} does not exist. Create it, or choose another file.")
    places = [target] if _special(target) else [folder, *([real] if os.path.exists(real) else [])]
    if not all(os.access(place, os.W_OK) for place in places):
        raise UsageError(f"{option} {target} cannot be written: permission denied. Choose another path.")


@contextmanager
def replacing(target: Path, check: Check | None = None) -> Iterator[Path]:
    """Yield a temporary path. It replaces the target if the block succeeds and the check passes."""
    _check_all_unread(target)
    try:
        if _special(target):
            yield target
            return
        target = Path(os.path.realpath(target))
        with suppress(FileNotFoundError):
            os.lstat(target)  # an invalid name is an OSError before anything is written
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
            files.allow_replacing(target)  # the check may have read it
            _sync(target.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise WriteError(f"{target} cannot be written: {error.strerror or error}. Choose another path.") from error
    except RuntimeError as error:
        if any(message in str(error) for message in TORCH_WRITER):
            raise WriteError(f"{target} cannot be written. Is the disk full? Choose another path.") from error
        raise


@contextmanager
def new_folder(target: Path, check: Check | None = None) -> Iterator[Path]:
    """Like `replacing`, for a folder. The target must not exist, and neither does the yielded path."""
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
        raise WriteError(f"{target} cannot be written: {error.strerror or error}. Choose another path.") from error


def _check_all_unread(target: Path) -> None:
    """Check all outputs before the first one is written, so that a failed run writes nothing."""
    for option, declared in files.declared_outputs().items():
        _check_unread(declared, option)
    _check_unread(target, "the output")


def _check_unread(target: Path, option: str) -> None:
    read = files.read_as(target)
    if read is not None:
        same = "" if str(read) == str(target) else f" (the same file as {read})"
        raise UsageError(
            f"{option} {target}{same} was read in this run, and inputs are never overwritten. Choose another file."
        )


def _same(one: Path, other: Path) -> bool:
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other) and not _special(one)
    return os.path.realpath(one) == os.path.realpath(other)


def _special(target: Path) -> bool:
    """Return whether the target is a pipe or device, which can be written to but not replaced."""
    return os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target)


def _sync(path: Path) -> None:
    """Flush to disk, so that a renamed file keeps its content if the power fails."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Windows cannot open folders
    try:
        os.fsync(handle)
    except OSError:
        if os.path.isfile(path):
            raise
    finally:
        os.close(handle)


def _mode(target: Path) -> int:
    """Return the mode of the replaced file, or the default mode of a new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


PREFIX = ".effsparse-"
NAME = re.compile(r"\.effsparse-(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}(\..*)?")
OLD = 24 * 3600
"""Seconds after which a temporary file is removed although its process cannot be checked, or its number is in use."""


def temporary_path(target: Path) -> Path:
    """Return a new name in the target's folder, with its suffix: some writers depend on it."""
    return target.parent / f"{PREFIX}{_machine()}-{os.getpid()}-{secrets.token_hex(4)}{target.suffix}"


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed runs from a folder. Those of running processes stay."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        found = NAME.fullmatch(entry.name)
        try:
            if found and _is_abandoned(found["machine"], int(found["process"]), entry.stat(follow_symlinks=False)):
                (shutil.rmtree if entry.is_dir(follow_symlinks=False) else os.unlink)(entry.path)
        except OSError:
            continue  # another run removed it, or it is not ours


def _is_abandoned(machine: str, process: int, status: os.stat_result) -> bool:
    if time.time() - status.st_mtime > OLD:
        return not (machine == _machine() and process == os.getpid())
    return machine == _machine() and not _is_running(process)


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return True  # os.kill would end the process
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _machine() -> str:
    """Return an identifier of the machine and container, to which process numbers belong."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{socket.gethostname()} {space}".encode()).hexdigest()[:8]
