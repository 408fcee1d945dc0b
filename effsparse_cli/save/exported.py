"""Masks written into an exported program (.pt2): a copy of the archive whose weights are overwritten where they lie.
Nothing else changes but their checksums, and nothing in the archive is run."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.load.torch.exported import read_program
from effsparse_cli.save.atomic import Check, replacing
from effsparse_cli.save.torch import changed_tensors

LOCAL_HEADER = 30
DESCRIPTOR = b"PK\x07\x08"


def write_program(source: Path, target: Path, kept: Mapping[str, Bools]) -> None:
    """`kept` by layer name, each in the shape of its layer; a layer that is not named stays as it is."""
    write_stored(source, target, changed_tensors(read_program(source).state_dict, kept))


def write_stored(source: Path, target: Path, new: Mapping[str, torch.Tensor], check: Check | None = None) -> None:
    """`new` by stored name; a tensor that is not named stays as it is."""
    with zipfile.ZipFile(source) as archive:
        places = dict(_places(archive))
        with replacing(target, check) as temporary:
            shutil.copyfile(source, temporary)
            with temporary.open("r+b") as file:
                for name, tensor in new.items():
                    if name not in places:
                        raise UsageError(f"{source} does not hold {name} where its index says. Use --masks-only")
                    member, meta = places[name]
                    overwrite(file, archive, member, _content(archive.read(member), meta, tensor))


def _places(archive: zipfile.ZipFile) -> Iterator[tuple[str, tuple[zipfile.ZipInfo, dict[str, Any]]]]:
    """By stored name: the member that holds its storage, and how the tensor lies in it."""
    for index in archive.namelist():
        folder, _, last = index.rpartition("/")
        if last.endswith("_weights_config.json"):
            for name, entry in json.loads(archive.read(index))["config"].items():
                yield name, (archive.getinfo(f"{folder}/{entry['path_name']}"), entry["tensor_meta"])


def _content(old: bytes, meta: dict[str, Any], tensor: torch.Tensor) -> bytes:
    """The member's bytes with the tensor's elements in their places."""
    size = tensor.element_size()
    elements: NDArray[Any] = np.frombuffer(bytearray(old), f"u{size}")
    strides = [stride["as_int"] * size for stride in meta["strides"]]
    there = np.lib.stride_tricks.as_strided(elements[meta["storage_offset"]["as_int"] :], tensor.shape, strides)
    there[...] = tensor.contiguous().view(-1).view(torch.uint8).numpy().view(f"u{size}").reshape(tensor.shape)
    return elements.tobytes()


def overwrite(file: BinaryIO, archive: zipfile.ZipFile, member: zipfile.ZipInfo, content: bytes) -> None:
    if member.compress_type != zipfile.ZIP_STORED:
        raise UsageError(f"{member.filename} is compressed in the archive, so it cannot be overwritten")
    file.seek(member.header_offset + 26)
    name, extra = struct.unpack("<HH", file.read(4))
    start = member.header_offset + LOCAL_HEADER + name + extra
    checksum = struct.pack("<L", zlib.crc32(content))
    file.seek(start)
    file.write(content)
    # The checksum stands in the local header or behind the data, and in the directory at the end.
    if member.flag_bits & 8 and file.read(4) == DESCRIPTOR:
        file.write(checksum)
    else:
        file.seek(member.header_offset + 14)
        file.write(checksum)
    file.seek(_directory_entry(file, archive, member) + 16)
    file.write(checksum)


def _directory_entry(file: BinaryIO, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Where the archive's directory speaks of the member."""
    at = archive.start_dir
    for entry in archive.infolist():
        if entry is member:
            return at
        file.seek(at + 28)
        name, extra, comment = struct.unpack("<HHH", file.read(6))
        at += 46 + name + extra + comment
    raise AssertionError("a member is in the directory of its archive")
