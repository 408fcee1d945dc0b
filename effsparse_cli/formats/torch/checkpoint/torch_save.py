"""Open files of torch.save and TorchScript archives as data: the content of their pickle, and its tensors on demand.
Before torch 1.6, a file was a few pickles, then the bytes of the storages in the order that the last one gives."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint, damage_on_error
from effsparse_cli.formats.torch.checkpoint.pickle.inert import StorageRef, itemsize
from effsparse_cli.formats.torch.checkpoint.pickle.modules import named_tensors
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import Memory, TensorReader
from effsparse_cli.formats.torch.checkpoint.pickle.unpickle import Unpickled, unpickle
from effsparse_cli.formats.torch.checkpoint.storage import open_archive
from effsparse_cli.formats.torch.checkpoint.weights import SelectedWeights, find_weights

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


@dataclass(frozen=True)
class PickledFile:
    """An open file. `global_names` are the classes and functions that it refers to, `sources` the source files of some
    classes, `offsets` the offsets of storages in a legacy file."""

    path: Path
    content: Any
    global_names: tuple[str, ...]
    tensors: TensorReader
    sources: Mapping[str, str]
    offsets: Mapping[str, int]

    def copied(self) -> PickledFile:
        """Return the same content with copied tensors, which may be written to."""
        shared = self.tensors.memory
        return replace(self, tensors=TensorReader(self.path, lambda ref: shared(ref).clone(), writable=True))


def open_pickled(path: Path) -> PickledFile:
    with path.open("rb") as file:
        zipped = file.read(2) == b"PK"
    read, memory, offsets = _open_zipped(path) if zipped else _open_legacy(path)
    return PickledFile(path, read.content, read.global_names, TensorReader(path, memory), read.sources, offsets)


Opened = tuple[Unpickled, Memory, Mapping[str, int]]


def _open_zipped(path: Path) -> Opened:
    archive = open_archive(path)

    def memory(ref: StorageRef) -> torch.Tensor:
        storage = archive.memory(f"data/{ref.key}")
        if len(storage) != ref.numel * itemsize(ref, path):
            raise LoadError(
                f"{path} is damaged: data/{ref.key} does not have the size of its tensor. Download it again."
            )
        return storage

    return unpickle(BytesIO(archive.read("data.pkl")), str(path)), memory, {}


def _open_legacy(path: Path) -> Opened:
    where = str(path)
    # Read through a map: reading a regular file would allocate whatever length a pickle declares.
    with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        file = cast(BinaryIO, mapped)
        magic = unpickle(file, where).content
        if magic != MAGIC:
            raise LoadError(
                f"{path} is a pickle that torch.save did not write (a {type(magic).__name__}). Load it where it was "
                "made, and save the state_dict with torch.save."
            )
        if unpickle(file, where).content != PROTOCOL:
            raise LoadError(f"{path} is damaged: its version of torch.save is unknown. Download it again.")
        unpickle(file, where)  # the byte order and sizes of the machine that wrote it
        unpickled = unpickle(file, where)
        keys = unpickle(file, where).content
        if not isinstance(keys, list) or not all(isinstance(key, str | int) for key in keys):
            raise LoadError(f"{path} is damaged: its list of storages is invalid. Download it again.")
        offsets = _find_offsets(path, file, [str(key) for key in keys], unpickled.storages)

    def memory(ref: StorageRef) -> torch.Tensor:
        """Read the bytes of a storage; they are not mapped, because they are not aligned."""
        size = ref.numel * itemsize(ref, path)
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        if ref.key not in offsets:
            raise LoadError(f"{path} is damaged: the values of a tensor are missing. Download it again.")
        with path.open("rb") as file:
            file.seek(offsets[ref.key])
            return torch.frombuffer(bytearray(file.read(size)), dtype=torch.uint8)

    return unpickled, memory, offsets


def _find_offsets(path: Path, file: BinaryIO, keys: list[str], storages: Mapping[str, StorageRef]) -> dict[str, int]:
    """Return the offset of each storage. A storage is preceded by its number of elements."""
    end, offsets = path.stat().st_size, dict[str, int]()
    for key in keys:
        numel = int.from_bytes(file.read(8), "little")
        ref = storages.get(key)
        start = file.tell()
        size = ref.numel * itemsize(ref, path) if ref else 0
        if ref is None or numel != ref.numel or start + size > end:
            raise LoadError(
                f"{path} is damaged or truncated: its storages do not have the stated sizes. Download it again."
            )
        offsets[key] = start
        file.seek(start + size)
    return offsets


def read_tensors(opened: PickledFile, key: str) -> Checkpoint:
    """Return the tensors of the state_dict or module in the file."""
    selected = select_weights(opened, key)
    with damage_on_error(opened.path):
        found = selected.value
        described = found if isinstance(found, Mapping) else named_tensors(opened.path, found)
        tensors = {name: opened.tensors.read(each) for name, each in described.items()}
    return Checkpoint(tensors, notes=selected.notes)


def select_weights(opened: PickledFile, key: str) -> SelectedWeights:
    """Return the state_dict or module at `key`, or the most likely one."""
    with damage_on_error(opened.path):
        return find_weights(opened.path, opened.content, key)
