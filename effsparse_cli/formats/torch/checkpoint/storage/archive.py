"""Open zip archives of torch.save, torch.export.save and TorchScript: small members as bytes, storages as memory.
Stored members are mapped, compressed ones are decompressed within limits; checksums and sizes are checked."""

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
"""Size of the widest dtype. torch.save aligns to more, but the archive may have been repacked."""
MAX_MEMBER = 128 << 20
MAX_RATIO, ROOM = 100, 256 << 20
"""Content may decompress to MAX_RATIO times the size of the file, plus ROOM bytes."""


@dataclass(frozen=True)
class Archive:
    """An open archive: members by name. `read` returns the bytes of a small member, `memory` maps a large one."""

    path: Path
    members: dict[str, Member]
    read: Callable[[str], bytes]
    memory: Callable[[str], torch.Tensor]


def allowance(path: Path) -> int:
    """Return how many bytes the content of a file may have when it is decompressed."""
    return MAX_RATIO * path.stat().st_size + ROOM


def open_archive(path: Path, in_folder: bool = True) -> Archive:
    """Open an archive; with `in_folder`, all members must be in one folder, as torch writes them."""
    listed = read_members(path)
    if in_folder:
        skip = len(check_names(path, listed)) + 1
    else:
        check_case(path, listed)
        skip = 0
    members = {member.name[skip:]: member for member in listed}
    if sum(member.size for member in listed) > allowance(path):
        raise LoadError(f"{path} is refused: it would decompress to over {MAX_RATIO} times its size.")

    def find(name: str) -> Member:
        if name not in members:
            raise LoadError(f"{path} is damaged: {name} is missing. Download or save it again.")
        return members[name]

    def read(name: str) -> bytes:
        member = find(name)
        if member.size > MAX_MEMBER:
            raise LoadError(f"{path} is refused: {name} has {member.size:,} bytes, far more than in a checkpoint.")
        return _read_member(path, member)

    if "byteorder" in members and read("byteorder") == b"big":
        raise LoadError(f"{path} was written on a big-endian machine. Save it again on a little-endian one.")
    content = map_file(path)

    def memory(name: str) -> torch.Tensor:
        member = find(name)
        if not member.size:
            return torch.empty(0, dtype=torch.uint8)
        if member.method != STORED:
            return torch.frombuffer(bytearray(_read_member(path, member)), dtype=torch.uint8)
        _check_crc(path, member)
        if member.start % ALIGNED:
            end = member.start + member.size
            return torch.frombuffer(bytearray(content[member.start : end]), dtype=torch.uint8)
        return torch.frombuffer(content, dtype=torch.uint8, count=member.size, offset=member.start)

    return Archive(path, members, read, memory)


def _read_member(path: Path, member: Member) -> bytes:
    """Return the bytes of a member, decompressing no more than its stated size."""
    with path.open("rb") as file:
        file.seek(member.start)
        content = file.read(member.packed)
    if member.method != STORED:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = unpacker.decompress(content, member.size + 1)
        except zlib.error as error:
            raise LoadError(f"{path} is damaged: {member.name} cannot be read ({error}). Download it again.") from error
        if unpacker.unused_data or not unpacker.eof:
            raise LoadError(f"{path} is damaged: {member.name} does not have its stated size. Download it again.")
    if len(content) != member.size:
        raise LoadError(f"{path} is damaged: {member.name} does not have its stated size. Download it again.")
    if member.checksum and zlib.crc32(content) != member.checksum:
        raise _crc_error(path, member)
    return content


def _check_crc(path: Path, member: Member) -> None:
    """Check the CRC of a stored member. Zero means that torch was configured not to compute it."""
    if not member.checksum:
        return
    with path.open("rb") as file:
        file.seek(member.start)
        checksum, left = 0, member.size
        while left:
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                raise _crc_error(path, member)
            checksum, left = zlib.crc32(chunk, checksum), left - len(chunk)
    if checksum != member.checksum:
        raise _crc_error(path, member)


def _crc_error(path: Path, member: Member) -> LoadError:
    return LoadError(f"{path} is damaged: {member.name} does not match its checksum. Download it again.")
