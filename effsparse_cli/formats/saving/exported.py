"""Masks written into an exported program (.pt2): a copy of the archive whose weights are overwritten where they lie.
Nothing else changes but their checksums, and nothing in the archive is run."""

from __future__ import annotations

import mmap
import shutil
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.saving.atomic import Check, replacing
from effsparse_cli.formats.saving.torch import changed_tensors
from effsparse_cli.formats.torch.exported import read_stored
from effsparse_cli.formats.torch.pt2.archive import Place, read_archive
from effsparse_cli.formats.torch.pt2.sizes import Sizes
from effsparse_cli.formats.torch.pt2.tensors import layout_of
from effsparse_cli.formats.zip_members import DESCRIPTOR, STORED, Member
from effsparse_cli.graph.primitives import Bools

CHECKSUM_IN_HEADER, CHECKSUM_IN_ENTRY, CHECKSUM_BEHIND = 14, 16, 4


def write_program(source: Path, target: Path, kept: Mapping[str, Bools]) -> None:
    """`kept` by layer name, each in the shape of its layer; a layer that is not named stays as it is."""
    write_stored(source, target, changed_tensors(read_stored(source), kept))


def write_stored(source: Path, target: Path, new: Mapping[str, torch.Tensor], check: Check | None = None) -> None:
    """`new` by stored name; a tensor that is not named stays as it is."""
    places = read_archive(source).places
    missing = next((name for name in new if name not in places), None)
    if missing is not None:
        raise UsageError(
            f"{source} was written by an older torch and holds {missing} in a form that cannot be overwritten. Export "
            "it again, or use --masks-only"
        )
    with replacing(target, check) as temporary:
        shutil.copyfile(source, temporary)
        with temporary.open("r+b") as file:
            for name, tensor in new.items():
                _put(file, places[name], tensor)
            for member in {id(places[name].member): places[name].member for name in new}.values():
                update_checksum(file, member)


def _put(file: BinaryIO, place: Place, tensor: torch.Tensor) -> None:
    """The tensor's elements in their places in the file."""
    size = tensor.element_size()
    shape, strides, offset = layout_of(place.meta, Sizes())
    if shape != tuple(tensor.shape):
        raise AssertionError("a tensor keeps its shape when its values change")
    if not tensor.numel():
        return
    with mmap.mmap(file.fileno(), 0) as content:
        count = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        start = place.member.start + offset * size
        elements: NDArray[Any] = np.frombuffer(content, f"u{size}", count, start)
        there = np.lib.stride_tricks.as_strided(elements, shape, [stride * size for stride in strides])
        there[...] = tensor.contiguous().view(-1).view(torch.uint8).numpy().view(f"u{size}").reshape(shape)
        del elements, there


def update_checksum(file: BinaryIO, member: Member) -> None:
    """Of a member whose bytes have changed where they are: in its header or behind its bytes, and in the directory."""
    if member.method != STORED:
        raise UsageError(f"{member.name} is compressed in the archive, so it cannot be overwritten")
    file.flush()
    file.seek(member.start)
    checksum, left = 0, member.size
    while left:
        chunk = file.read(min(left, 1 << 20))
        checksum, left = zlib.crc32(chunk, checksum), left - len(chunk)
    behind = member.start + member.size + CHECKSUM_BEHIND
    places = [member.entry + CHECKSUM_IN_ENTRY]
    if member.flags & DESCRIPTOR:
        places.append(behind)
        file.seek(member.header + CHECKSUM_IN_HEADER)
        if file.read(4) != bytes(4):
            places.append(member.header + CHECKSUM_IN_HEADER)
    else:
        places.append(member.header + CHECKSUM_IN_HEADER)
    for place in places:
        file.seek(place)
        file.write(struct.pack("<L", checksum))
