"""What a convention finds in a file's tensors: one weight under the model's own name, what of the file is spent on it,
and what reads its mask and its numbers. A mask that cannot be one is refused here, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.values import nonzero
from effsparse_cli.graph.primitives import Bools, Shape

Read = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class File:
    """A file's tensors by name, and the names among them that are free: the model itself does not want them. `shapes`
    are those that the model gives to its own, where they are known. `masks_apart`: masks come from another file, so
    that one missing here is no mistake."""

    tensors: Mapping[str, torch.Tensor]
    free: Collection[str]
    shapes: Mapping[str, Shape]
    masks_apart: bool = False


@dataclass(frozen=True)
class Found:
    """One tensor of the model. `spent` are the file's names that it is made of; `tensor` is on the meta device where
    `values` must be asked for the numbers. `beside`: its mask stands beside it, and the stored weight has not been
    multiplied by it."""

    name: str
    spent: tuple[str, ...]
    tensor: torch.Tensor
    kept: Callable[[], Bools] | None = None
    values: Read | None = None
    beside: bool = False


def masked(
    name: str, weight: str, masks: Collection[str], file: File, *, rows: bool = False, beside: bool = False
) -> Found:
    """The weight that the file calls `weight` under masks, which all must keep what is kept. `rows`: a mask may have
    one number for each output, as [out] or [out, 1]."""
    tensor = file.tensors[weight]
    for mask in masks:
        _check(mask, file.tensors[mask], weight, tuple(tensor.shape), rows)
    readers = [partial(_spread, file.tensors[mask], tuple(tensor.shape)) for mask in masks]
    spent = (weight, *masks)
    if tensor.ndim > 1:
        return Found(name, spent, tensor, partial(_all_of, readers), beside=beside)
    # A vector is no connection but a bias or a scale: it is small, and what its mask takes away is zero.
    product = tensor.detach() * torch.tensor(_all_of(readers), dtype=tensor.dtype)
    return Found(name, spent, product)


def fits(mask: Shape, weight: Shape, rows: bool) -> bool:
    if mask == weight:
        return True
    if not rows or not mask or mask[0] != weight[0]:
        return False
    return all(n == 1 for n in mask[1:]) and len(mask) in (1, len(weight))


def is_binary(mask: torch.Tensor) -> bool:
    if mask.is_floating_point() and mask.element_size() == 1:
        mask = mask.to(torch.float32)
    return mask.dtype == torch.bool or bool(((mask == 0) | (mask == 1)).all())


def times(shape: Collection[int]) -> str:
    return "x".join(map(str, shape)) or "a number"


def _check(name: str, mask: torch.Tensor, weight: str, shape: Shape, rows: bool) -> None:
    if mask.is_meta or mask.layout != torch.strided:
        raise LoadError(f"the mask {name} of {weight} is no plain tensor: save it dense, with its values")
    if not fits(tuple(mask.shape), shape, rows):
        raise LoadError(
            f"the mask {name} is {times(mask.shape)}, but its weight {weight} is {times(shape)}: a mask has the shape "
            "of its weight. Was the file put together from two models?"
        )
    if is_binary(mask):
        return
    if mask.is_floating_point() and bool(mask.isnan().any()):
        raise LoadError(f"the mask {name} of {weight} holds NaN: a mask is made of zeros and ones")
    low, high = mask.min().item(), mask.max().item()
    raise LoadError(
        f"the mask {name} of {weight} is not made of zeros and ones: its values lie between {low:g} and {high:g}. "
        "Scores become a mask by a threshold; save that."
    )


def _spread(mask: torch.Tensor, shape: Shape) -> Bools:
    kept = nonzero(mask)
    return np.broadcast_to(kept.reshape(kept.shape + (1,) * (len(shape) - kept.ndim)), shape)


def _all_of(readers: Collection[Callable[[], Bools]]) -> Bools:
    kept = [read() for read in readers]
    return np.logical_and.reduce(kept) if len(kept) > 1 else np.ascontiguousarray(kept[0])
