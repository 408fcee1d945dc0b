"""Temporary files next to an output: recognizable by name, and removed by a later run if theirs was killed."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from pathlib import Path

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
                _remove(entry)
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


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
    else:
        os.unlink(entry.path)
