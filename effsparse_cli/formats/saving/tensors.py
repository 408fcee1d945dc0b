"""Masks written into files of tensors: a copy of the file in which the tensors are changed where they lie, so that
everything else in it stays as it was and nothing of it is run. A folder is written beside its place and renamed."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.saving.atomic import Check, new_folder, replacing
from effsparse_cli.formats.saving.changes import INSTEAD, Change, Tensors, find_changes
from effsparse_cli.formats.saving.exported import update_checksum
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.folder import inside, read_folder
from effsparse_cli.formats.torch.checkpoint.storage.legacy import open_legacy
from effsparse_cli.formats.torch.checkpoint.storage.mapped import place_in_file
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled, read_tensors
from effsparse_cli.formats.torch.pickled import read_content
from effsparse_cli.formats.zip_members import read_members
from effsparse_cli.graph.primitives import Bools

Masks = Mapping[str, Bools]
Placed = tuple[int, Change]


def write_safetensors(
    source: Path,
    target: Path,
    kept: Masks,
    options: LoadOptions,
    new: Tensors | None = None,
    check: Check | None = None,
) -> None:
    """`kept` by layer name, `new` values by tensor; the header stays as it is, with its metadata and its order."""
    raw = read_content(source, options)
    assert isinstance(raw, Checkpoint)
    _write_file(source, target, _placed(find_changes(source, raw, kept, options, new)).get(source, []), check)


def write_state_dict(
    source: Path,
    target: Path,
    kept: Masks,
    options: LoadOptions,
    new: Tensors | None = None,
    check: Check | None = None,
) -> None:
    """A file of torch.save, whatever else it holds."""
    opened = open_pickled(source)
    changes = find_changes(source, read_tensors(opened, options.key), kept, options, new)
    with source.open("rb") as file:
        zipped = file.read(2) == b"PK"
    if zipped:
        _write_file(source, target, _placed(changes).get(source, []), check)
        return
    places = open_legacy(source).places
    starts = {storage.data_ptr(): places[key] for key, storage in opened.tensors.storages.items() if key in places}
    _write_file(source, target, [(_in_storage(change.tensor, starts), change) for change in changes], check)


def _in_storage(tensor: torch.Tensor, starts: Mapping[int, int]) -> int:
    return starts[tensor.untyped_storage().data_ptr()] + int(tensor.storage_offset()) * tensor.element_size()


def write_folder(
    source: Path,
    target: Path,
    kept: Masks,
    options: LoadOptions,
    new: Tensors | None = None,
    check: Check | None = None,
) -> None:
    """A new folder with copies of all files: links become the files that they lead to, so that it stands for itself."""
    placed = _placed(find_changes(source, read_folder(source, options), kept, options, new))
    for file in source.rglob("*"):
        inside(source, str(file.relative_to(source)))
    with new_folder(target, check) as copy:
        shutil.copytree(source, copy)
        for file, changes in placed.items():
            _change(copy / file.relative_to(source), changes)
        copy.chmod(source.stat().st_mode & 0o777)


def _placed(changes: Sequence[Change]) -> dict[Path, list[Placed]]:
    """By file, where each tensor begins."""
    found: dict[Path, list[Placed]] = {}
    for change in changes:
        place = place_in_file(change.tensor)
        if place is None or _span(change.tensor) < change.tensor.numel():
            raise UsageError(f"{change.name} is stored in a form that cannot be overwritten. {INSTEAD}")
        found.setdefault(place[0], []).append((place[1], change))
    return found


def _write_file(source: Path, target: Path, changes: Sequence[Placed], check: Check | None) -> None:
    with replacing(target, check) as temporary:
        shutil.copyfile(source, temporary)
        _change(temporary, changes)


def _change(copy: Path, changes: Sequence[Placed]) -> None:
    copy.chmod(copy.stat().st_mode | 0o200)
    with copy.open("rb") as opened:
        members = read_members(copy) if opened.read(2) == b"PK" else []
    with copy.open("r+b") as file:
        content = mmap.mmap(file.fileno(), 0)
        for start, change in changes:
            tensor = change.tensor
            flat = torch.frombuffer(content, dtype=tensor.dtype, count=_span(tensor), offset=start)
            change.apply(flat.as_strided(tensor.shape, tensor.stride()))
        content.flush()
        for member in members:
            if any(member.start <= start < member.start + member.size for start, _ in changes):
                update_checksum(file, member)


def _span(tensor: torch.Tensor) -> int:
    """From its first element to its last: fewer than it has where it repeats some."""
    return 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
