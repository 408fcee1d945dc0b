"""Files of torch.save, zipped or legacy, and TorchScript archives are opened as data: what their pickle describes,
and the tensors in it on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from effsparse_cli.errors import EffsparseError, LoadError
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.pickle.inert import StorageRef
from effsparse_cli.formats.torch.checkpoint.pickle.modules import named_tensors
from effsparse_cli.formats.torch.checkpoint.pickle.tensors import Tensors
from effsparse_cli.formats.torch.checkpoint.pickle.unpickle import unpickle
from effsparse_cli.formats.torch.checkpoint.storage.archive import open_archive
from effsparse_cli.formats.torch.checkpoint.storage.dtypes import itemsize
from effsparse_cli.formats.torch.checkpoint.storage.legacy import open_legacy
from effsparse_cli.formats.torch.checkpoint.weights import Picked, pick


@dataclass(frozen=True)
class Opened:
    """`asked` are the classes and functions that the file names, `sources` the files that some were defined in.
    `places` has the offsets of storages in a legacy file."""

    path: Path
    content: Any
    asked: tuple[str, ...]
    tensors: Tensors
    sources: Mapping[str, str]
    places: Mapping[str, int] = field(default_factory=dict)

    def copied(self) -> Opened:
        """Return the same content with tensors in memory of their own, which may be written to."""
        shared = self.tensors.memory
        return replace(self, tensors=Tensors(self.path, lambda ref: shared(ref).clone(), writable=True))


def open_pickled(path: Path) -> Opened:
    with path.open("rb") as file:
        zipped = file.read(2) == b"PK"
    if not zipped:
        legacy = open_legacy(path)
        read = legacy.unpickled
        return Opened(path, read.content, read.asked, Tensors(path, legacy.memory), read.sources, legacy.places)
    archive = open_archive(path)
    unpickled = unpickle(archive.read("data.pkl"), str(path))

    def memory(ref: StorageRef) -> torch.Tensor:
        found = archive.memory(f"data/{ref.key}")
        if len(found) != ref.numel * itemsize(ref, path):
            raise LoadError(f"{path} is damaged: data/{ref.key} in it is not of the size that its tensor has")
        return found

    return Opened(path, unpickled.content, unpickled.asked, Tensors(path, memory), unpickled.sources)


def read_tensors(opened: Opened, key: str) -> Checkpoint:
    """The tensors of a state_dict or module, wherever in the file they are."""
    picked = pick_weights(opened, key)
    with as_described(opened.path):
        described = picked.value if isinstance(picked.value, Mapping) else named_tensors(opened.path, picked.value)
        tensors = {name: opened.tensors.make(each) for name, each in described.items()}
    return Checkpoint(tensors, notes=picked.notes)


def pick_weights(opened: Opened, key: str) -> Picked:
    with as_described(opened.path):
        return pick(opened.path, opened.content, key)


@contextmanager
def as_described(path: Path) -> Iterator[None]:
    """A damaged pickle can describe anything at all in the place of anything else: whatever then goes wrong is the
    file's fault."""
    try:
        yield
    except EffsparseError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise LoadError(f"{path} is damaged: what it describes makes no sense ({reason}). Fetch it again.") from error
