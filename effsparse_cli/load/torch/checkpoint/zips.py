"""A zip of torch.save or TorchScript becomes its pickle and the memory of its tensors: mapped where a member is
stored as it is, inflated within bounds where it is not. What the file says of its members is checked against it."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.load.torch.checkpoint.release import map_file

CHUNK = 1 << 20
ALIGNED = 16
"""The widest number. torch.save aligns to more, but a file may have been packed again."""
LARGEST_PICKLE = 128 << 20
INFLATED, ROOM = 100, 256 << 20
"""What a file may ask for: a hundred times its own size, and this many bytes for small ones."""


@dataclass(frozen=True)
class Archive:
    """`read` gives a small member, `memory` the bytes of a large one; both by their name below the archive's."""

    path: Path
    read: Callable[[str], bytes]
    memory: Callable[[str], torch.Tensor]


def allowance(path: Path) -> int:
    """How many bytes a file's content may have when it is written out."""
    return INFLATED * path.stat().st_size + ROOM


def open_archive(path: Path) -> Archive:
    try:
        archive = zipfile.ZipFile(path)  # read from for as long as its tensors are asked for
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, struct.error) as error:
        raise LoadError(f"{path} is a damaged or truncated zip file ({str(error)[:120]}). Fetch it again.") from error
    members = {_inner(info.filename): info for info in archive.infolist()}
    if len(members) < len(archive.infolist()):
        twice = Counter(_inner(name) for name in archive.namelist()).most_common(1)[0][0]
        raise LoadError(f"{path} is damaged: it holds {twice} twice")
    if sum(info.file_size for info in members.values()) > allowance(path):
        raise LoadError(f"{path} is refused: unpacked it would be over {INFLATED} times its size")

    def find(name: str) -> zipfile.ZipInfo:
        if name not in members:
            raise LoadError(f"{path} is damaged: {name} is missing in it. Fetch or save it again.")
        return members[name]

    def read(name: str) -> bytes:
        info = find(name)
        if info.file_size > LARGEST_PICKLE:
            raise LoadError(f"{path} is refused: its {name} has {info.file_size:,} bytes, far more than a checkpoint's")
        return _content(archive, path, info)

    if "byteorder" in members and read("byteorder") == b"big":
        raise LoadError(f"{path} was written on a big-endian machine. Save it again on a little-endian one.")
    content = map_file(path)

    def memory(name: str) -> torch.Tensor:
        info = find(name)
        if not info.file_size:
            return torch.empty(0, dtype=torch.uint8)
        if info.compress_type != zipfile.ZIP_STORED:
            return torch.frombuffer(bytearray(_content(archive, path, info)), dtype=torch.uint8)
        start = _check(path, info)
        if start % ALIGNED:
            return torch.frombuffer(bytearray(content[start : start + info.file_size]), dtype=torch.uint8)
        return torch.frombuffer(content, dtype=torch.uint8, count=info.file_size, offset=start)

    return Archive(path, read, memory)


def _inner(name: str) -> str:
    """Without the archive's own name, which is the first folder of every member."""
    return name.partition("/")[2]


def _content(archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo) -> bytes:
    """zipfile compares the checksum itself, and inflates no more than the size that is announced."""
    if not info.CRC:
        start = _check(path, info)
        with path.open("rb") as file:
            file.seek(start)
            return file.read(info.file_size)
    try:
        with archive.open(info) as member:
            content = member.read(info.file_size + 1)
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, zlib.error, EOFError) as error:
        raise LoadError(
            f"{path} is damaged: {info.filename} cannot be read ({str(error)[:120]}). Fetch it again."
        ) from error
    if len(content) != info.file_size:
        raise LoadError(f"{path} is damaged: {info.filename} is not of the size that it announces")
    return content


def _check(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a stored member's bytes begin, after its place and checksum were compared. A checksum of zero is none:
    torch can be told not to compute them."""
    damaged = LoadError(f"{path} is damaged: {info.filename} is not what was written. Fetch it again.")
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04" or info.compress_size != info.file_size:
            raise damaged
        name, extra = struct.unpack("<HH", header[26:30])
        start = int(info.header_offset + 30 + name + extra)
        file.seek(start)
        checksum, left = 0, info.file_size
        while left:
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                raise damaged
            checksum, left = zlib.crc32(chunk, checksum) if info.CRC else 0, left - len(chunk)
    if checksum != info.CRC:
        raise damaged
    return start
