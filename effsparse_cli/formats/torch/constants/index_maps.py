"""Where the elements of a constant stand in the stored tensor that they come from.

A ghost is first a tensor without memory, strided like the stored tensor: data movement applied to it keeps
offset and strides, at no cost. When a movement copies, it becomes a real tensor of flat positions, -1 where
an element comes from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from effsparse_cli.graph.primitives import Bools, Shape, View

Arrange = Callable[[torch.Tensor], torch.Tensor]


def new(shape: Sequence[int], offset: int = 0, strides: Sequence[int] | None = None) -> torch.Tensor:
    if strides is None:
        return torch.empty(tuple(shape), device="meta")
    span = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return torch.empty(span, device="meta").as_strided(tuple(shape), tuple(strides), offset)


def positions(ghost: torch.Tensor) -> torch.Tensor:
    """As flat positions."""
    if not ghost.is_meta:
        return ghost
    span = 1 + sum((n - 1) * s for n, s in zip(ghost.shape, ghost.stride(), strict=True)) if ghost.numel() else 0
    start = int(ghost.storage_offset())
    return torch.arange(start, start + span).as_strided(ghost.shape, ghost.stride(), 0)


def move(ghost: torch.Tensor, arrange: Arrange) -> torch.Tensor:
    """Apply data movement; a result that is no view of the ghost is worked out on positions."""
    if ghost.is_meta:
        moved = arrange(ghost)
        if moved.untyped_storage()._cdata == ghost.untyped_storage()._cdata:
            return moved
    return arrange(positions(ghost))


def is_whole(ghost: torch.Tensor, size: int) -> bool:
    """All elements of the stored tensor, in its own order."""
    return ghost.is_meta and ghost.storage_offset() == 0 and ghost.numel() == size and ghost.is_contiguous()


def view(ghost: torch.Tensor, size: int) -> View:
    if is_whole(ghost, size):
        return View()
    if ghost.is_meta:
        return View(int(ghost.storage_offset()), tuple(ghost.stride()))
    return View(index=ghost.numpy())


def put_back(there: Bools, ghost: torch.Tensor, shape: Shape, elsewhere: bool | Bools) -> Bools:
    """What is known of a constant's elements, in the stored tensor's shape; `elsewhere` holds for elements
    that the constant does not have. An element that stands in several places counts if any does."""
    if is_whole(ghost, math.prod(shape)):
        return np.broadcast_to(there, tuple(ghost.shape)).reshape(shape)
    flat = positions(ghost).numpy().reshape(-1)
    values = np.broadcast_to(there, tuple(ghost.shape)).reshape(-1)[flat >= 0]
    flat = flat[flat >= 0]
    result = np.broadcast_to(np.asarray(elsewhere, dtype=bool), shape).reshape(-1).copy()
    result[flat] = False
    result[flat[values]] = True
    return result.reshape(shape)
