"""Translate changes of a model's layers into changes of the tensors of a checkpoint, and write them: in a copy of the
file, so that everything else stays as it was and no code runs, or as masks in the form of torch.nn.utils.prune."""

from __future__ import annotations

import mmap
import pickle
import shutil
import struct
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import nn

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.masks.conventions import TORCH_PRUNE
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.storage import compute_crc, find_file_offset
from effsparse_cli.formats.torch.conventions.resolve import find_model_tensors
from effsparse_cli.formats.torch.stored import StoredTensors
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.formats.writing.atomic import Check, replacing
from effsparse_cli.formats.zip_members import DESCRIPTOR, STORED, Member, read_members
from effsparse_cli.graph.primitives import Bools

Tensors = Mapping[str, torch.Tensor]
INSTEAD = "Write only the masks, with --masks-only"
CHECKSUM_IN_HEADER, CHECKSUM_IN_ENTRY, CHECKSUM_IN_DESCRIPTOR = 14, 16, 4

NOT_AS_MASKS = "Write zeroed weights (without --form prune) or --masks-only"
DEEPEST = 16


@dataclass(frozen=True)
class TensorChange:
    """One tensor of the file and which elements are kept: a weight, with the names of its masks, or a mask.
    `values` replace its own, if there are any."""

    name: str
    tensor: torch.Tensor
    kept: torch.Tensor
    masks: tuple[str, ...] = ()
    is_mask: bool = False
    values: torch.Tensor | None = None

    def apply(self, there: torch.Tensor) -> None:
        """Make the change to the same tensor in another place."""
        if self.values is not None:
            there.copy_(self.values)
        if self.is_mask:
            there.copy_(self.kept)
        else:
            # By bits, since some narrow floats have no arithmetic.
            words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
            there.view(words.get(there.element_size(), there.dtype)).masked_fill_(~self.kept, 0)


PlacedChange = tuple[int, TensorChange]
"""A change, and the offset of its tensor in the file."""


def find_changes(
    source: Path, raw: Checkpoint, model: tuple[nn.Module, Checkpoint], kept: Mapping[str, Bools], new: Tensors
) -> list[TensorChange]:
    """Return the changes to the tensors of `raw`. `model` is the module that they belong to, with the tensors under its
    names, `kept` has masks by layer, and `new` values by the module's own names."""
    built, fitted = model
    module = stored_tensors(built)
    stored_masks = _find_masks(raw, module)
    in_file: dict[int, list[str]] = {}
    for name, tensor in raw.tensors.items():
        in_file.setdefault(id(tensor), []).append(name)
    changes = list(_of_new(source, raw, fitted, new))
    for layer, names in _names(module, kept).items():
        there = [name for name in names if name in fitted.tensors]
        files = [file for name in there for file in in_file.get(id(fitted.tensors[name]), ())]
        if not files:
            what = "in a sparse, quantized or packed format that cannot be written" if there else "under no name"
            raise UsageError(f"{source} stores {layer} {what}. {INSTEAD}")
        for file in dict.fromkeys(files) if kept[layer].size else ():
            changes += _of_weight(raw, file, kept[layer], stored_masks.get(id(raw.tensors[file]), ()))
    return changes


def _of_new(source: Path, raw: Checkpoint, fitted: Checkpoint, new: Tensors) -> Iterator[TensorChange]:
    for name, values in new.items():
        there = fitted.tensors.get(name)
        files = [file for file, tensor in raw.tensors.items() if tensor is there]
        if not files:
            raise UsageError(f"{source} stores {name} in a format that new values cannot be written to. {INSTEAD}")
        whole = torch.ones(values.shape, dtype=torch.bool)
        yield from (TensorChange(file, raw.tensors[file], whole, values=values) for file in files)


def _of_weight(raw: Checkpoint, name: str, kept: Bools, masks: tuple[str, ...]) -> Iterator[TensorChange]:
    tensor, new = raw.tensors[name], torch.from_numpy(kept)
    yield TensorChange(name, tensor, new, masks)
    whole = [mask for mask in masks if raw.tensors[mask].shape == tensor.shape]
    if masks and not whole:
        raise UsageError(f"{masks[0]}, the mask of {name}, can only mask whole outputs. {INSTEAD}")
    for mask in masks:
        shape = raw.tensors[mask].shape
        values = new if mask in whole else new.flatten(1).any(1).reshape(shape)
        yield TensorChange(mask, raw.tensors[mask], values, is_mask=True)


def _names(module: Mapping[str, torch.Tensor], layers: Mapping[str, object]) -> dict[str, list[str]]:
    """Return all names that the model has for the tensor of each layer."""
    stored = StoredTensors(module, set())
    groups: dict[int, list[str]] = {}
    for name, tensor in module.items():
        groups.setdefault(id(tensor), []).append(name)
    by_layer = {stored.label(name): groups[id(module[name])] for name in reversed(list(module))}
    absent = [layer for layer in layers if layer not in by_layer]
    if absent:
        raise UsageError(f"the model stores no tensor for {', '.join(absent)}, so its masks cannot be written")
    return {layer: by_layer[layer] for layer in layers}


def _find_masks(raw: Checkpoint, module: Mapping[str, torch.Tensor]) -> dict[int, tuple[str, ...]]:
    """Return the file's names of the masks of each weight, by the weight's identity."""
    shapes = {name: tuple(tensor.shape) for name, tensor in module.items()}
    found = find_model_tensors(raw.tensors, shapes, external_masks=True)
    return {
        id(raw.tensors[each.sources[0]]): each.sources[1:]
        for each in found
        if each.kept is not None and each.values is None
    }


def find_places(changes: Sequence[TensorChange]) -> dict[Path, list[PlacedChange]]:
    """Return the changes by file, with the offset of each tensor."""
    found: dict[Path, list[PlacedChange]] = {}
    for change in changes:
        place = find_file_offset(change.tensor)
        if place is None:
            raise _cannot_overwrite(change)
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
            span = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
            if span < tensor.numel():
                raise _cannot_overwrite(change)
            flat = torch.frombuffer(content, dtype=tensor.dtype, count=span, offset=start)
            change.apply(flat.as_strided(tensor.shape, tensor.stride()))
        content.flush()
        for member in members:
            if any(member.start <= start < member.start + member.size for start, _ in changes):
                _update_checksum(opened, member)


def _cannot_overwrite(change: TensorChange) -> UsageError:
    return UsageError(f"{change.name} is stored in a format that cannot be overwritten. {INSTEAD}")


def _update_checksum(file: BinaryIO, member: Member) -> None:
    """Update the checksum of a member: in its header or after its bytes, and in the directory."""
    if member.method != STORED:
        raise UsageError(f"{member.name} is compressed in the archive, so it cannot be overwritten")
    file.flush()
    checksum = compute_crc(file, member)
    in_header = member.header + CHECKSUM_IN_HEADER
    places = [member.entry + CHECKSUM_IN_ENTRY]
    if member.flags & DESCRIPTOR:
        places.append(member.start + member.size + CHECKSUM_IN_DESCRIPTOR)
        file.seek(in_header)
    if not member.flags & DESCRIPTOR or file.read(4) != bytes(4):
        places.append(in_header)
    for place in places:
        file.seek(place)
        file.write(struct.pack("<L", checksum))


def write_prune_form(source: Path, target: Path, changes: Sequence[TensorChange], key: str) -> None:
    """Write the changes as masks. A weight that has masks in the file keeps its name, and they change."""
    content = _plain_data(source)
    prefixes = ("", f"{key.rpartition('.')[2]}.")
    for holder in _dictionaries(content, DEEPEST):
        for prefix in prefixes:
            if all(isinstance(holder.get(prefix + change.name), torch.Tensor) for change in changes):
                _change(holder, {prefix + change.name: change for change in changes})
                with replacing(target) as temporary:
                    torch.save(content, temporary)
                return
    raise UsageError(f"{source} stores its weights where masks cannot be added. {NOT_AS_MASKS}")


def _plain_data(source: Path) -> Any:
    try:
        return torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(f"{source} contains objects of custom classes next to its weights. {NOT_AS_MASKS}") from error


def _dictionaries(content: Any, depth: int) -> Iterator[MutableMapping[Any, Any]]:
    if isinstance(content, MutableMapping):
        yield content
        for value in list(content.values()) if depth else ():
            yield from _dictionaries(value, depth - 1)


def _change(holder: MutableMapping[Any, Any], changes: Mapping[str, TensorChange]) -> None:
    """Make the changes, keeping the order of the names."""
    before = dict(holder)
    holder.clear()
    for name, value in before.items():
        change = changes.get(name)
        if change is None or (not change.is_mask and change.masks):
            holder[name] = value
        elif change.is_mask:
            holder[name] = change.kept.to(value.dtype)
        else:
            holder[TORCH_PRUNE.weight_name(name)] = value
            holder[TORCH_PRUNE.mask_name(name)] = change.kept.to(value.dtype)
