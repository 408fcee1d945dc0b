"""The files of one run: what it has read must not be overwritten by what it writes.

Readers call `note_read` where they open a file; `save/atomic.py` asks `read_as` before it writes. Files are compared by
identity (device and inode), so links and other spellings of a path make no difference. Outside of `one_run`, for
example in a user's own Python program, nothing is recorded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from effsparse_cli.errors import EffsparseError, LoadError

Identity = tuple[int, int]
KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


@dataclass
class Record:
    """`read` by identity with the path under which it was read; `replaceable` files may be overwritten all the same."""

    read: dict[Identity, Path] = field(default_factory=dict)
    replaceable: set[Identity] = field(default_factory=set)
    outputs: dict[str, Path] = field(default_factory=dict)


_record: Record | None = None


@contextmanager
def one_run() -> Iterator[Record]:
    """A record of its own for everything that is read and written inside of the block."""
    global _record
    before, _record = _record, Record()
    try:
        yield _record
    finally:
        _record = before


def note_read(path: Path, error: type[EffsparseError] = LoadError, option: str = "") -> Path:
    """Record a file that is about to be opened. Pipes, devices, sockets and folders are refused: opening them can block
    or never end."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return path  # opening it says what is wrong
    if not stat.S_ISREG(found.st_mode):
        what = KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
        raise error(f"{option}{' ' if option else ''}{path} is {what}, and only regular files are read.")
    if _record is not None:
        _record.read.setdefault((found.st_dev, found.st_ino), path)
    return path


def note_belonging(path: Path) -> None:
    """Record a file that belongs to a model that was read, whether or not all of it is needed."""
    identity = identity_of(path)
    if _record is not None and identity is not None:
        _record.read.setdefault(identity, path)


def note_reads(read: dict[Identity, Path]) -> None:
    """Add what another process has read for this run."""
    if _record is not None:
        _record.read.update(read)


def allow_replacing(path: Path) -> None:
    """The user has asked for this file to be overwritten, although it is read."""
    identity = identity_of(path)
    if _record is not None and identity is not None:
        _record.replaceable.add(identity)


def declare_output(option: str, path: Path) -> None:
    """Remember an output that will be written later in the run."""
    if _record is not None:
        _record.outputs[option] = path


def read_as(target: Path) -> Path | None:
    """The path under which this run has read the file that `target` leads to, if it must not be overwritten."""
    identity = identity_of(target)
    if _record is None or identity is None or identity in _record.replaceable:
        return None
    return _record.read.get(identity)


def declared_outputs() -> dict[str, Path]:
    return dict(_record.outputs) if _record is not None else {}


def identity_of(path: Path) -> Identity | None:
    """Of the file that the path leads to; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
