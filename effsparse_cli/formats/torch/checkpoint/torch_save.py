"""Open files of torch.save, zipped or legacy, and TorchScript archives as data: the content of their pickle, and its
tensors on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.damage import damage_on_error
from effsparse_cli.formats.torch.checkpoint.pickle.inert import StorageRef
from effsparse_cli.formats.torch.checkpoint.pickle.modules import named_tensors
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import TensorReader
from effsparse_cli.formats.torch.checkpoint.pickle.unpickle import unpickle
from effsparse_cli.formats.torch.checkpoint.storage.archive import open_archive
from effsparse_cli.formats.torch.checkpoint.storage.dtypes import itemsize
from effsparse_cli.formats.torch.checkpoint.storage.legacy import open_legacy
from effsparse_cli.formats.torch.checkpoint.weights import SelectedWeights, find_weights


@dataclass(frozen=True)
class PickledFile:
    """An open file. `global_names` are the classes and functions that it refers to, `sources` the source files of some
    classes, `offsets` the offsets of storages in a legacy file."""

    path: Path
    content: Any
    global_names: tuple[str, ...]
    tensors: TensorReader
    sources: Mapping[str, str]
    offsets: Mapping[str, int] = field(default_factory=dict)

    def copied(self) -> PickledFile:
        """Return the same content with copied tensors, which may be written to."""
        shared = self.tensors.memory
        return replace(self, tensors=TensorReader(self.path, lambda ref: shared(ref).clone(), writable=True))


def open_pickled(path: Path) -> PickledFile:
    with path.open("rb") as file:
        zipped = file.read(2) == b"PK"
    if not zipped:
        legacy = open_legacy(path)
        read = legacy.unpickled
        return PickledFile(
            path, read.content, read.global_names, TensorReader(path, legacy.memory), read.sources, legacy.offsets
        )
    archive = open_archive(path)
    unpickled = unpickle(archive.read("data.pkl"), str(path))

    def memory(ref: StorageRef) -> torch.Tensor:
        storage = archive.memory(f"data/{ref.key}")
        if len(storage) != ref.numel * itemsize(ref, path):
            raise LoadError(
                f"{path} is damaged: data/{ref.key} does not have the size of its tensor. Download it again."
            )
        return storage

    return PickledFile(path, unpickled.content, unpickled.global_names, TensorReader(path, memory), unpickled.sources)


def read_tensors(opened: PickledFile, key: str) -> Checkpoint:
    """Return the tensors of the state_dict or module in the file."""
    selected = select_weights(opened, key)
    with damage_on_error(opened.path):
        described = (
            selected.value if isinstance(selected.value, Mapping) else named_tensors(opened.path, selected.value)
        )
        tensors = {name: opened.tensors.read(each) for name, each in described.items()}
    return Checkpoint(tensors, notes=selected.notes)


def select_weights(opened: PickledFile, key: str) -> SelectedWeights:
    """Return the state_dict or module at `key`, or the most likely one."""
    with damage_on_error(opened.path):
        return find_weights(opened.path, opened.content, key)
