"""The bottleneck semiring (max, min) in torch, on any device: what `lattice.py` needs of it."""

from __future__ import annotations

import math
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from effsparse_cli.graph.primitives import Bools, Ints
from effsparse_cli.paths import devices

ZERO, ONE = -math.inf, math.inf


class TorchOperations:
    """See NumpyOperations."""

    zero, one = ZERO, ONE
    plus, times = staticmethod(torch.maximum), staticmethod(torch.minimum)
    matmul = None
    narrow = staticmethod(torch.narrow)
    permute = staticmethod(torch.permute)
    broadcast = staticmethod(torch.broadcast_to)
    concatenate = staticmethod(torch.cat)

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        self.device = devices.find_device(device, dtype)
        self.dtype = dtype

    def send(self, array: NDArray[Any]) -> Tensor:
        return devices.send(array, self.device, self.dtype)

    def fetch(self, a: Tensor) -> NDArray[Any]:
        return devices.fetch(a)

    def sum(self, a: Tensor, axes: tuple[int, ...], keepdims: bool = False) -> Tensor:
        if not axes:
            return a
        if a.numel():
            return a.amax(dim=axes, keepdim=keepdims)
        shape = [1 if i in axes else n for i, n in enumerate(a.shape) if keepdims or i not in axes]
        return a.new_full(shape, ZERO)

    def where(self, holds: Bools, a: Tensor) -> Tensor:
        return torch.where(devices.send(holds, self.device), a, ZERO)

    def select(self, a: Tensor, axis: int, index: Ints) -> Tensor:
        return a.index_select(axis, self._indices(index))

    def scatter(self, a: Tensor, axis: int, index: Ints, size: int) -> Tensor:
        result = a.new_full((*a.shape[:axis], size, *a.shape[axis + 1 :]), ZERO)
        where = self._indices(index).reshape([-1 if i == axis else 1 for i in range(a.ndim)])
        return result.scatter_reduce_(axis, where.expand_as(a), a, "amax")

    def _indices(self, index: Ints) -> Tensor:
        return devices.send(index, self.device, torch.int64)
