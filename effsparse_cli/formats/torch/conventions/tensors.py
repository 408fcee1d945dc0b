"""Tensors of a file, and tensors of the model that conventions make of them, with masks that fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.tensors import format_shape, nonzero
from effsparse_cli.graph.primitives import Bools, Shape

ReadTensor = Callable[[], torch.Tensor]


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
    numbers, `tensor` is on the meta device. `applied` is False if the weight may have values where its mask has
    zeros."""

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
