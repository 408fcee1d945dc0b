"""A zip of torch.save, torch.export.save or TorchScript becomes small members and the memory of tensors: mapped where
a member is stored as it is, inflated within bounds where it is not. Checksums and sizes are compared."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.storage.mapped import map_file
from effsparse_cli.formats.zip_members import STORED, Member, check_case, check_names, read_members

CHUNK = 1 << 20
ALIGNED = 16
"""The widest number. torch.save aligns to more, but a file may have been packed again."""
LARGEST_PICKLE = 128 << 20
INFLATED, ROOM = 100, 256 << 20
"""What a file may ask for: a hundred times its own size, and this many bytes for small ones."""


@dataclass(frozen=True)
class Archive:
    """`members` by their name below the archive's folder. `read` gives a small one, `memory` the bytes of a large
    one."""

    path: Path
    members: dict[str, Member]
    read: Callable[[str], bytes]
    memory: Callable[[str], torch.Tensor]


def allowance(path: Path) -> int:
    """How many bytes a file's content may have when it is written out."""
    return INFLATED * path.stat().st_size + ROOM


def open_archive(path: Path, foldered: bool = True) -> Archive:
    """`foldered`: all members are in one folder, as torch writes them."""
    listed = read_members(path)
    if foldered:
        skip = len(check_names(path, listed)) + 1
    else:
        check_case(path, listed)
        skip = 0
    members = {member.name[skip:]: member for member in listed}
    if sum(member.size for member in listed) > allowance(path):
        raise LoadError(f"{path} is refused: unpacked it would be over {INFLATED} times its size")

    def find(name: str) -> Member:
        if name not in members:
            raise LoadError(f"{path} is damaged: {name} is missing in it. Fetch or save it again.")
        return members[name]

    def read(name: str) -> bytes:
        member = find(name)
        if member.size > LARGEST_PICKLE:
            raise LoadError(f"{path} is refused: its {name} has {member.size:,} bytes, far more than a checkpoint's")
        return _content(path, member)

    if "byteorder" in members and read("byteorder") == b"big":
        raise LoadError(f"{path} was written on a big-endian machine. Save it again on a little-endian one.")
    content = map_file(path)

    def memory(name: str) -> torch.Tensor:
        member = find(name)
        if not member.size:
            return torch.empty(0, dtype=torch.uint8)
        if member.method != STORED:
            return torch.frombuffer(bytearray(_content(path, member)), dtype=torch.uint8)
        _check(path, member)
        if member.start % ALIGNED:
            end = member.start + member.size
            return torch.frombuffer(bytearray(content[member.start : end]), dtype=torch.uint8)
        return torch.frombuffer(content, dtype=torch.uint8, count=member.size, offset=member.start)

    return Archive(path, members, read, memory)


def _content(path: Path, member: Member) -> bytes:
    """A member's bytes, of which no more are inflated than it announces."""
    with path.open("rb") as file:
        file.seek(member.start)
        content = file.read(member.packed)
    if member.method != STORED:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = unpacker.decompress(content, member.size + 1)
        except zlib.error as error:
            raise LoadError(f"{path} is damaged: {member.name} cannot be read ({error}). Fetch it again.") from error
        if unpacker.unused_data or not unpacker.eof:
            raise LoadError(f"{path} is damaged: {member.name} is not of the size that it announces")
    if len(content) != member.size:
        raise LoadError(f"{path} is damaged: {member.name} is not of the size that it announces")
    if member.checksum and zlib.crc32(content) != member.checksum:
        raise _changed(path, member)
    return content


def _check(path: Path, member: Member) -> None:
    """Compare a stored member's checksum. One of zero is none: torch can be told not to compute them."""
    if not member.checksum:
        return
    with path.open("rb") as file:
        file.seek(member.start)
        checksum, left = 0, member.size
        while left:
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                raise _changed(path, member)
            checksum, left = zlib.crc32(chunk, checksum), left - len(chunk)
    if checksum != member.checksum:
        raise _changed(path, member)


def _changed(path: Path, member: Member) -> LoadError:
    return LoadError(f"{path} is damaged: {member.name} is not what was written. Fetch it again.")
