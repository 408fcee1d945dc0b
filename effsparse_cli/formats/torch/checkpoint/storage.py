"""The bytes of tensors. In memory-mapped files, tensors are views of the map, and pages are released as soon as a scan
has read them, so that a checkpoint of any size needs the memory of one chunk. In zip archives of torch, stored members
are mapped and compressed ones decompressed within limits; checksums and sizes are checked."""

from __future__ import annotations

import mmap
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.zip_members import STORED, Member, check_case, check_names, read_members

CHUNK = 1 << 20
"""Bytes to read at a time; they fit into the processor's cache."""
# A private map that nobody writes to needs no memory, so none is reserved. Python names the flag since 3.12.
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
ALIGNED = 16
"""Size of the widest dtype. torch.save aligns to more, but the archive may have been repacked."""
MAX_MEMBER = 128 << 20
MAX_RATIO, ROOM = 100, 256 << 20
"""Content may decompress to MAX_RATIO times the size of the file, plus ROOM bytes."""


@dataclass(frozen=True, eq=False)
class _Mapped:
    """The addresses of a map. Only its tensors hold a reference to it, so no address is used after it is freed."""

    path: Path
    start: int
    end: int
    content: weakref.ref[mmap.mmap]

    def release(self, start: int, end: int) -> None:
        """Release the pages between two addresses. They are read again from the file when they are needed."""
        content = self.content()
        if content is not None and hasattr(content, "madvise") and start < end:
            first = (start - self.start) // mmap.PAGESIZE * mmap.PAGESIZE
            content.madvise(mmap.MADV_DONTNEED, first, end - self.start - first)


_mapped: list[_Mapped] = []


def map_file(path: Path) -> mmap.mmap:
    """Map a whole file, which must not be empty. Writes to the map stay in memory and are lost with its pages: this
    package does not write, but user code that does must not crash."""
    with path.open("rb") as file:
        if sys.platform == "linux":
            flags, prot = mmap.MAP_PRIVATE | NO_RESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            content = mmap.mmap(file.fileno(), 0, flags=flags, prot=prot)
        else:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    start = torch.frombuffer(content, dtype=torch.uint8).data_ptr()
    _mapped[:] = [known for known in _mapped if known.content() is not None]
    _mapped.append(_Mapped(path, start, start + len(content), weakref.ref(content)))
    return content


def is_mapped(tensor: torch.Tensor) -> bool:
    return _find(tensor) is not None


def find_file_offset(tensor: torch.Tensor) -> tuple[Path, int] | None:
    """Return the file of a mapped tensor and the offset of its first element."""
    known = _find(tensor)
    return None if known is None else (known.path, tensor.data_ptr() - known.start)


def iter_chunks(tensor: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield a contiguous tensor in flat chunks with their positions, releasing the pages of each before the next."""
    flat = tensor.reshape(-1)
    known = is_mapped(tensor)
    step = max(CHUNK // tensor.element_size(), 1)
    for at in range(0, tensor.numel(), step):
        chunk = flat[at : at + step]
        yield at, chunk
        if known:
            release(chunk)


def release(tensor: torch.Tensor) -> None:
    """Release the pages of a mapped tensor."""
    release_pages = find_release(tensor)
    if release_pages is not None and tensor.numel():
        span = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
        release_pages(tensor.data_ptr(), tensor.data_ptr() + span * tensor.element_size())


def find_release(tensor: torch.Tensor) -> Callable[[int, int], None] | None:
    """Return a function that releases the pages of a mapped tensor between two addresses; None if it is not mapped."""
    known = _find(tensor)
    return None if known is None else known.release


def _find(tensor: torch.Tensor) -> _Mapped | None:
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return None
    at = tensor.data_ptr()
    return next((known for known in _mapped if known.start <= at < known.end and known.content() is not None), None)


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
        content, whole = file.read(member.packed), True
    if member.method != STORED:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = unpacker.decompress(content, member.size + 1)
        except zlib.error as error:
            raise LoadError(f"{path} is damaged: {member.name} cannot be read ({error}). Download it again.") from error
        whole = unpacker.eof and not unpacker.unused_data
    if not whole or len(content) != member.size:
        raise LoadError(f"{path} is damaged: {member.name} does not have its stated size. Download it again.")
    if member.checksum and zlib.crc32(content) != member.checksum:
        raise _crc_error(path, member)
    return content


def _check_crc(path: Path, member: Member) -> None:
    """Check the CRC of a stored member. Zero means that torch was configured not to compute it."""
    with path.open("rb") as file:
        if member.checksum and compute_crc(file, member) != member.checksum:
            raise _crc_error(path, member)


def compute_crc(file: BinaryIO, member: Member) -> int:
    """Return the CRC of the bytes of a member, -1 if some are missing."""
    file.seek(member.start)
    checksum, left = 0, member.size
    while left and (chunk := file.read(min(CHUNK, left))):
        checksum, left = zlib.crc32(chunk, checksum), left - len(chunk)
    return -1 if left else checksum


def _crc_error(path: Path, member: Member) -> LoadError:
    return LoadError(f"{path} is damaged: {member.name} does not match its checksum. Download it again.")
