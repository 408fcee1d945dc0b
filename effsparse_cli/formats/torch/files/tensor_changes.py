"""Translate changes of a model's layers into changes of the tensors of a checkpoint: weights and their masks,
under the file's own names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.conventions.resolve import find_model_tensors
from effsparse_cli.formats.torch.stored import StoredTensors
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.graph.primitives import Bools

Tensors = Mapping[str, torch.Tensor]
INSTEAD = "Write only the masks, with --masks-only"


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


def find_changes(
    source: Path, raw: Checkpoint, model: tuple[nn.Module, Checkpoint], kept: Mapping[str, Bools], new: Tensors
) -> list[TensorChange]:
    """Return the changes to the tensors of `raw`.

    `model` is the module that they belong to, with the tensors under its names. `kept` holds masks by layer, `new`
    values by the module's own names. Whatever is not named stays as it is.
    """
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
