"""Write a copy of a file of tensors in which some are changed where they lie, so that everything else in it stays as it
was and none of its code runs."""

from __future__ import annotations

import mmap
import shutil
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import torch

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.torch.checkpoint.storage.mapped import find_file_offset
from effsparse_cli.formats.torch.files.tensor_changes import INSTEAD, TensorChange
from effsparse_cli.formats.writing.atomic import Check, replacing
from effsparse_cli.formats.zip_members import DESCRIPTOR, STORED, Member, read_members

CHECKSUM_IN_HEADER, CHECKSUM_IN_ENTRY, CHECKSUM_IN_DESCRIPTOR = 14, 16, 4

PlacedChange = tuple[int, TensorChange]
"""A change, and the offset of its tensor in the file."""


def find_places(changes: Sequence[TensorChange]) -> dict[Path, list[PlacedChange]]:
    """Return the changes by file, with the offset of each tensor."""
    found: dict[Path, list[PlacedChange]] = {}
    for change in changes:
        place = find_file_offset(change.tensor)
        if place is None or _span(change.tensor) < change.tensor.numel():
            raise UsageError(f"{change.name} is stored in a format that cannot be overwritten. {INSTEAD}")
        found.setdefault(place[0], []).append((place[1], change))
    return found


def write_overwritten(source: Path, target: Path, changes: Sequence[PlacedChange], check: Check | None) -> None:
    """Write a copy of a file with the changes."""
    with replacing(target, check) as temporary:
        shutil.copyfile(source, temporary)
        overwrite(temporary, changes)


def overwrite(file: Path, changes: Sequence[PlacedChange]) -> None:
    """Change tensors in a file, and the checksums of the zip members that hold them."""
    file.chmod(file.stat().st_mode | 0o200)
    with file.open("rb") as opened:
        members = read_members(file) if opened.read(2) == b"PK" else []
    with file.open("r+b") as opened:
        content = mmap.mmap(opened.fileno(), 0)
        for start, change in changes:
            tensor = change.tensor
            flat = torch.frombuffer(content, dtype=tensor.dtype, count=_span(tensor), offset=start)
            change.apply(flat.as_strided(tensor.shape, tensor.stride()))
        content.flush()
        for member in members:
            if any(member.start <= start < member.start + member.size for start, _ in changes):
                update_checksum(opened, member)


def _span(tensor: torch.Tensor) -> int:
    """Return the number of elements from the first to the last: fewer than it has where it repeats some."""
    return 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))


def update_checksum(file: BinaryIO, member: Member) -> None:
    """Update the checksum of a member whose bytes have changed: in its header or after its bytes, and in the
    directory."""
    if member.method != STORED:
        raise UsageError(f"{member.name} is compressed in the archive, so it cannot be overwritten")
    file.flush()
    file.seek(member.start)
    checksum, left = 0, member.size
    while left:
        chunk = file.read(min(left, 1 << 20))
        checksum, left = zlib.crc32(chunk, checksum), left - len(chunk)
    in_descriptor = member.start + member.size + CHECKSUM_IN_DESCRIPTOR
    places = [member.entry + CHECKSUM_IN_ENTRY]
    if member.flags & DESCRIPTOR:
        places.append(in_descriptor)
        file.seek(member.header + CHECKSUM_IN_HEADER)
        if file.read(4) != bytes(4):
            places.append(member.header + CHECKSUM_IN_HEADER)
    else:
        places.append(member.header + CHECKSUM_IN_HEADER)
    for place in places:
        file.seek(place)
        file.write(struct.pack("<L", checksum))
