"""Tensors of a file, and tensors of the model that conventions make of them: weights with masks, found by the table of
mask conventions. A mask that does not fit its weight is an error here."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.masks.conventions import CONVENTIONS, Convention, parse
from effsparse_cli.formats.torch.tensors import format_shape, nonzero
from effsparse_cli.graph.primitives import Bools, Shape

ReadTensor = Callable[[], torch.Tensor]
Masks = dict[str, list[str]]
RENAMING = tuple(each for each in CONVENTIONS if each.renames_weight)
BESIDE = tuple(each for each in CONVENTIONS if not each.renames_weight)


@dataclass(frozen=True)
class FileTensors:
    """The tensors of a file. `free` are the names that the model does not have, `shapes` those of the model's tensors
    where known. With `external_masks`, masks come from another file, so a weight may lack its mask here."""

    tensors: Mapping[str, torch.Tensor]
    free: Collection[str]
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    external_masks: bool = False


@dataclass(frozen=True)
class ModelTensor:
    """One tensor of the model, made of the tensors `sources` of a file, the weight first. If `values` reads its
    numbers, `tensor` is on the meta device. `applied`: the weight has no values where its mask has zeros."""

    name: str
    sources: tuple[str, ...]
    tensor: torch.Tensor
    kept: Callable[[], Bools] | None = None
    values: ReadTensor | None = None
    applied: bool = True


def apply_masks(
    name: str, weight: str, masks: Collection[str], file: FileTensors, *, per_output: bool = False, applied: bool = True
) -> ModelTensor:
    """Return the weight under its masks; a connection is kept if all of them keep it."""
    tensor = file.tensors[weight]
    for mask in masks:
        _check_mask(mask, file.tensors[mask], weight, tuple(tensor.shape), per_output)
    readers = [partial(_broadcast, file.tensors[mask], tuple(tensor.shape)) for mask in masks]
    sources = (weight, *masks)
    if tensor.ndim > 1:
        return ModelTensor(name, sources, tensor, partial(_intersect, readers), applied=applied)
    # A vector is a bias or a scale, which has no connections: its masked values become zeros.
    product = tensor.detach() * torch.tensor(_intersect(readers), dtype=tensor.dtype)
    return ModelTensor(name, sources, product)


def fits(mask: Shape, weight: Shape, per_output: bool) -> bool:
    if mask == weight:
        return True
    if not per_output or not mask or mask[0] != weight[0]:
        return False
    return all(n == 1 for n in mask[1:]) and len(mask) in (1, len(weight))


def is_binary(mask: torch.Tensor) -> bool:
    if mask.is_floating_point() and mask.element_size() == 1:
        mask = mask.to(torch.float32)
    return mask.dtype == torch.bool or bool(((mask == 0) | (mask == 1)).all())


def _check_mask(name: str, mask: torch.Tensor, weight: str, shape: Shape, per_output: bool) -> None:
    if mask.is_meta or mask.layout != torch.strided:
        raise LoadError(f'mask "{name}" of {weight} is not a dense tensor. Save it dense, with its values.')
    if not fits(tuple(mask.shape), shape, per_output):
        raise LoadError(
            f'mask "{name}" has shape {format_shape(mask.shape)}, but its weight {weight} has shape '
            f"{format_shape(shape)}. Check that both are from the same model."
        )
    if is_binary(mask):
        return
    if mask.is_floating_point() and bool(mask.isnan().any()):
        raise LoadError(f'mask "{name}" of {weight} contains NaN. A mask contains only zeros and ones.')
    low, high = mask.min().item(), mask.max().item()
    raise LoadError(
        f'mask "{name}" of {weight} is not binary: its values range from {low:g} to {high:g}. Compare scores with a '
        "threshold, and save the result."
    )


def _broadcast(mask: torch.Tensor, shape: Shape) -> Bools:
    kept = nonzero(mask)
    return np.broadcast_to(kept.reshape(kept.shape + (1,) * (len(shape) - kept.ndim)), shape)


def _intersect(readers: Collection[Callable[[], Bools]]) -> Bools:
    kept = [read() for read in readers]
    return np.logical_and.reduce(kept) if len(kept) > 1 else np.ascontiguousarray(kept[0])


def find_renamed(convention: Convention, file: FileTensors) -> Iterator[ModelTensor]:
    """Yield the weights that one convention stores under another name than the model's, with their masks."""
    masks: Masks = {}
    for mask in file.tensors if convention.applied else file.free:
        for parameter in convention.find_parameters(mask):
            masks.setdefault(parameter, []).append(mask)
    weights = {name: each for name in file.free if (each := convention.find_parameter(name)) is not None}
    if not convention.applied:
        weights = {name: each for name, each in weights.items() if each in masks and each not in file.tensors}
    conflicts = _find_conflicts(convention, weights, masks, file) if weights else set()
    paths = set()
    for weight, parameter in weights.items():
        if weight in conflicts:
            continue
        if parameter in masks:
            paths.add(parameter.rpartition(".")[0])
            yield apply_masks(
                parameter, weight, masks[parameter], file, per_output=convention.per_output, applied=convention.applied
            )
        elif convention.missing and parameter not in file.tensors:
            if not file.external_masks:
                raise LoadError(f"{weight} has no mask in this file. {convention.missing}")
            yield ModelTensor(parameter, (weight,), file.tensors[weight])
    yield from _find_others(convention, paths, masks, file)


def _find_conflicts(convention: Convention, weights: dict[str, str], masks: Masks, file: FileTensors) -> set[str]:
    """Return the weights that other tensors show to be computed by something other than masks."""
    if not convention.unless:
        return set()
    by_name = {convention.conflict_name(parameter): weight for weight, parameter in weights.items()}
    own = {*weights, *(mask for parameter in weights.values() for mask in masks.get(parameter, ()))}
    conflicts = set()
    for name in file.tensors:
        if name not in own:
            folders = [name[: dot.end()] for dot in re.finditer(r"\.", name)]
            conflicts |= {by_name[each] for each in (name, *folders) if each in by_name}
    return conflicts


def _find_others(convention: Convention, paths: set[str], masks: Masks, file: FileTensors) -> Iterator[ModelTensor]:
    """Yield the other tensors of masked layers, under the model's names."""
    if convention.other_names is None:
        return
    stored, renamed = convention.other_names
    for name in file.free:
        fields = parse(stored, name)
        if fields is not None and fields["path"].rstrip(".") in paths and renamed.format(**fields) not in masks:
            yield ModelTensor(renamed.format(**fields), (name,), file.tensors[name])


def find_beside(file: FileTensors) -> Iterator[ModelTensor]:
    """Yield the weights that keep the model's names and have masks under names of their own."""
    masks: dict[str, dict[str, Convention]] = {}
    for mask in file.free:
        match = _find_weight(mask, file)
        if match is not None:
            weight, convention = match
            masks.setdefault(weight, {})[mask] = convention
    for weight, found in masks.items():
        per_output = any(convention.per_output for convention in found.values())
        yield apply_masks(weight, weight, [*found], file, per_output=per_output, applied=False)
        bias = f"{weight.removesuffix('weight')}bias"
        pruning = [mask for mask, convention in found.items() if convention.prunes_bias]
        if pruning and bias in file.tensors:
            values = file.tensors[pruning[0]].reshape(-1).to(file.tensors[bias].dtype)
            yield ModelTensor(bias, (bias,), file.tensors[bias].detach() * values)


def _find_weight(mask: str, file: FileTensors) -> tuple[str, Convention] | None:
    """Return the weight that a tensor masks, and the convention that says so; None if it is not a mask."""
    absent: list[str] = []
    for convention in BESIDE:
        for weight in convention.find_parameters(mask):
            if weight not in file.tensors:
                absent += [weight] if convention.certain else []
            elif convention.certain or _could_mask(mask, weight, convention, file):
                return weight, convention
    if absent:
        raise LoadError(f'mask "{mask}" has no weight: the file does not contain {absent[0]}.')
    return None


def _could_mask(mask: str, weight: str, convention: Convention, file: FileTensors) -> bool:
    tensor = file.tensors[mask]
    return fits(tuple(tensor.shape), tuple(file.tensors[weight].shape), convention.per_output) and is_binary(tensor)
