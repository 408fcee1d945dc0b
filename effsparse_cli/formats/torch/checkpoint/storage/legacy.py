"""A file of torch.save in its form from before torch 1.6 becomes its pickle and the memory of its tensors: a few
pickles one after another, then the tensors' bytes in the order that the last pickle gives."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.pickle.inert import StorageRef
from effsparse_cli.formats.torch.checkpoint.pickle.unpickle import Unpickled, unpickle_next
from effsparse_cli.formats.torch.checkpoint.storage.dtypes import itemsize

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


@dataclass(frozen=True)
class Legacy:
    """`places` says where the bytes of a storage begin, by its key."""

    path: Path
    unpickled: Unpickled
    places: Mapping[str, int]

    def memory(self, ref: StorageRef) -> torch.Tensor:
        """Read and not mapped: these bytes are aligned to nothing."""
        size = ref.numel * itemsize(ref, self.path)
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        if ref.key not in self.places:
            raise LoadError(f"{self.path} is damaged: the numbers of a tensor are missing in it")
        with self.path.open("rb") as file:
            file.seek(self.places[ref.key])
            return torch.frombuffer(bytearray(file.read(size)), dtype=torch.uint8)


def open_legacy(path: Path) -> Legacy:
    where = str(path)
    # Read through a map: a plain file would make room for whatever length a pickle announces.
    with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        file = cast(BinaryIO, mapped)
        magic = unpickle_next(file, where).content
        if magic != MAGIC:
            raise LoadError(
                f"{path} is a Python pickle that torch.save did not write (a value of type {type(magic).__name__}). "
                "Load it where it was made, and save the state_dict with torch.save."
            )
        if unpickle_next(file, where).content != PROTOCOL:
            raise LoadError(f"{path} is damaged: no known version of torch.save wrote it")
        unpickle_next(file, where)  # about the machine that wrote it
        unpickled = unpickle_next(file, where)
        keys = unpickle_next(file, where).content
        if not isinstance(keys, list) or not all(isinstance(key, str | int) for key in keys):
            raise LoadError(f"{path} is damaged: it does not say which tensors it holds")
        return Legacy(path, unpickled, _places(path, file, [str(key) for key in keys], unpickled.storages))


def _places(path: Path, file: BinaryIO, keys: list[str], storages: Mapping[str, StorageRef]) -> dict[str, int]:
    """Each storage is preceded by its number of elements."""
    end, places = path.stat().st_size, dict[str, int]()
    for key in keys:
        announced = int.from_bytes(file.read(8), "little")
        ref = storages.get(key)
        start = file.tell()
        size = ref.numel * itemsize(ref, path) if ref else 0
        if ref is None or announced != ref.numel or start + size > end:
            raise LoadError(f"{path} is damaged or cut: its tensors are not of the sizes that it announces")
        places[key] = start
        file.seek(start + size)
    return places
