"""Record the files that a run reads, so that its outputs never overwrite them.

Readers call `note_read` when they open a file; writers check `read_as` before they replace one. Files are compared by
identity (device and inode), so links and different spellings of a path do not matter. Outside of `one_run`, for example
in a user's Python program, nothing is recorded.
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
    """`read` maps identities to the paths that were read; `replaceable` files may be overwritten although they were
    read.
    """

    read: dict[Identity, Path] = field(default_factory=dict)
    replaceable: set[Identity] = field(default_factory=set)
    outputs: dict[str, Path] = field(default_factory=dict)


_record: Record | None = None


@contextmanager
def one_run() -> Iterator[Record]:
    """Record everything that is read and written within the block."""
    global _record
    before, _record = _record, Record()
    try:
        yield _record
    finally:
        _record = before


def note_read(path: Path, error: type[EffsparseError] = LoadError, option: str = "") -> Path:
    """Record a file that is about to be opened. Pipes, devices, sockets and folders are refused, because reading them
    may block or never end."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return path  # opening the file raises the error
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
        raise error(f"{option}{' ' if option else ''}{path} is {kind}; only regular files can be read.")
    if _record is not None:
        _record.read.setdefault((status.st_dev, status.st_ino), path)
    return path


def note_belonging(path: Path) -> None:
    """Record a file that belongs to a model that was read, even if it is not opened."""
    identity = identity_of(path)
    if _record is not None and identity is not None:
        _record.read.setdefault(identity, path)


def note_reads(read: dict[Identity, Path]) -> None:
    """Record the files that another process has read for this run."""
    if _record is not None:
        _record.read.update(read)


def allow_replacing(path: Path) -> None:
    """Allow a file to be overwritten although it was read, at the user's request."""
    identity = identity_of(path)
    if _record is not None and identity is not None:
        _record.replaceable.add(identity)


def declare_output(option: str, path: Path) -> None:
    """Record an output that will be written later in the run."""
    if _record is not None:
        _record.outputs[option] = path


def read_as(path: Path) -> Path | None:
    """Return the path under which this run has read the file at `path`, None if it may be overwritten."""
    identity = identity_of(path)
    if _record is None or identity is None or identity in _record.replaceable:
        return None
    return _record.read.get(identity)


def declared_outputs() -> dict[str, Path]:
    return dict(_record.outputs) if _record is not None else {}


def identity_of(path: Path) -> Identity | None:
    """Return the identity of the file at `path`, None if it does not exist."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
