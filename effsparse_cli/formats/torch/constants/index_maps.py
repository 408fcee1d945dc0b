"""Index maps: for each element of a constant, its position in the stored tensor that it comes from.

An index map starts as a meta tensor with the strides of the stored tensor. Data movement applied to it changes only its
offset and strides, at no cost. When a movement copies, the map becomes a real tensor of flat positions, -1 for elements
from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from effsparse_cli.graph.primitives import Bools, Shape, View

Arrange = Callable[[torch.Tensor], torch.Tensor]


def new_map(shape: Sequence[int], offset: int = 0, strides: Sequence[int] | None = None) -> torch.Tensor:
    """Return the map of a whole tensor of this shape, or of a strided view of one."""
    if strides is None:
        return torch.empty(tuple(shape), device="meta")
    span = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return torch.empty(span, device="meta").as_strided(tuple(shape), tuple(strides), offset)


def to_positions(index_map: torch.Tensor) -> torch.Tensor:
    """Return the map as flat positions."""
    if not index_map.is_meta:
        return index_map
    shape, strides = index_map.shape, index_map.stride()
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if index_map.numel() else 0
    start = int(index_map.storage_offset())
    return torch.arange(start, start + span).as_strided(shape, strides, 0)


def move(index_map: torch.Tensor, arrange: Arrange) -> torch.Tensor:
    """Apply data movement, on positions if the result is not a view."""
    if index_map.is_meta:
        moved = arrange(index_map)
        if moved.untyped_storage()._cdata == index_map.untyped_storage()._cdata:
            return moved
    return arrange(to_positions(index_map))


def is_whole(index_map: torch.Tensor, size: int) -> bool:
    """Whether it has all elements of a stored tensor of this size, in its order."""
    whole = index_map.is_meta and index_map.storage_offset() == 0 and index_map.numel() == size
    return whole and index_map.is_contiguous()


def as_view(index_map: torch.Tensor, size: int) -> View:
    """Return the map as the view of a Weight."""
    if is_whole(index_map, size):
        return View()
    if index_map.is_meta:
        return View(int(index_map.storage_offset()), tuple(index_map.stride()))
    return View(index=index_map.numpy())


def put_back(values: Bools, index_map: torch.Tensor, shape: Shape, elsewhere: bool | Bools) -> Bools:
    """Return booleans of a constant's elements in the shape of the stored tensor, `elsewhere` for stored elements that
    the constant does not have. An element that the constant has several times is True if any of them is."""
    if is_whole(index_map, math.prod(shape)):
        return np.broadcast_to(values, tuple(index_map.shape)).reshape(shape)
    flat = to_positions(index_map).numpy().reshape(-1)
    values = np.broadcast_to(values, tuple(index_map.shape)).reshape(-1)[flat >= 0]
    flat = flat[flat >= 0]
    result = np.broadcast_to(np.asarray(elsewhere, dtype=bool), shape).reshape(-1).copy()
    result[flat] = False
    result[flat[values]] = True
    return result.reshape(shape)
