"""Read torch.save files from before torch 1.6: a few pickles one after another, then the bytes of the storages in the
order that the last pickle gives."""

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
class LegacyFile:
    """The unpickled content, and the offset of the bytes of each storage by its key."""

    path: Path
    unpickled: Unpickled
    offsets: Mapping[str, int]

    def memory(self, ref: StorageRef) -> torch.Tensor:
        """Read the bytes of a storage; they are not mapped, because they are not aligned."""
        size = ref.numel * itemsize(ref, self.path)
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        if ref.key not in self.offsets:
            raise LoadError(f"{self.path} is damaged: the values of a tensor are missing. Download it again.")
        with self.path.open("rb") as file:
            file.seek(self.offsets[ref.key])
            return torch.frombuffer(bytearray(file.read(size)), dtype=torch.uint8)


def open_legacy(path: Path) -> LegacyFile:
    where = str(path)
    # Read through a map: reading a regular file would allocate whatever length a pickle declares.
    with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        file = cast(BinaryIO, mapped)
        magic = unpickle_next(file, where).content
        if magic != MAGIC:
            raise LoadError(
                f"{path} is a pickle that torch.save did not write (a {type(magic).__name__}). Load it where it was "
                "made, and save the state_dict with torch.save."
            )
        if unpickle_next(file, where).content != PROTOCOL:
            raise LoadError(f"{path} is damaged: its version of torch.save is unknown. Download it again.")
        unpickle_next(file, where)  # the byte order and sizes of the machine that wrote it
        unpickled = unpickle_next(file, where)
        keys = unpickle_next(file, where).content
        if not isinstance(keys, list) or not all(isinstance(key, str | int) for key in keys):
            raise LoadError(f"{path} is damaged: its list of storages is invalid. Download it again.")
        return LegacyFile(path, unpickled, _find_offsets(path, file, [str(key) for key in keys], unpickled.storages))


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
