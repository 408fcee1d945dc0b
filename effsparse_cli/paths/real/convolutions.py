"""Contractions in torch: by torch's own convolutions where windows have one stride, dilation and padding, which is many
times faster; else by matrix products over the positions that the tables of taps list.

In both, x is [batch, channels, *spatial] and the weight [rows, channels / groups, *taps].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from effsparse_cli.graph.primitives import Contract, Shape, Taps
from effsparse_cli.graph.windows import sliding_to
from effsparse_cli.paths import devices
from effsparse_cli.paths.taps import invert

FORWARD = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@dataclass(frozen=True)
class TorchConvolution:
    """`pads` are in the order of F.pad, last axis first."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[int, ...]
    groups: int

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        padded = F.pad(x, self.pads)
        return FORWARD[len(self.stride)](padded, weight, None, self.stride, 0, self.dilation, self.groups)

    def to_input(self, y: Tensor, weight: Tensor, x_shape: Shape) -> Tensor:
        """Apply the adjoint with respect to x."""
        padded = F.pad(torch.empty(x_shape, device="meta"), self.pads)
        back = self._backward(y, y.new_empty(1).expand(padded.shape), weight, (True, False, False))[0]
        return F.pad(back, [-p for p in self.pads])

    def to_weight(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        """Apply the adjoint with respect to the weight."""
        return self._backward(y, F.pad(x, self.pads), weight, (False, True, False))[1]

    def _backward(self, y: Tensor, x: Tensor, weight: Tensor, wanted: tuple[bool, bool, bool]) -> tuple[Tensor, ...]:
        rank = len(self.stride)
        return torch.ops.aten.convolution_backward(  # type: ignore[no-any-return]
            y, x, weight, None, self.stride, [0] * rank, self.dilation, False, [0] * rank, self.groups, wanted
        )


@dataclass(frozen=True)
class TabledConvolution:
    windows: tuple[Taps, ...]
    groups: int

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        y = torch.einsum("bgjo,gnj->bgno", self._columns(x), self._matrix(weight))
        return y.reshape(len(x), len(weight), *(t.shape[1] for t in self.windows))

    def to_input(self, y: Tensor, weight: Tensor, x_shape: Shape) -> Tensor:
        columns = torch.einsum("bgno,gnj->bgjo", self._rows(y), self._matrix(weight))
        taps, out = [t.shape[0] for t in self.windows], [t.shape[1] for t in self.windows]
        data = columns.reshape(len(y), x_shape[1], *taps, *out)
        for table, size in zip(self.windows, x_shape[2:], strict=True):
            data = self._fold(data, invert(table, size))
        return data

    def to_weight(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        return torch.einsum("bgjo,bgno->gnj", self._columns(x), self._rows(y)).reshape(weight.shape)

    def _rows(self, y: Tensor) -> Tensor:
        return y.reshape(len(y), self.groups, y.shape[1] // self.groups, math.prod(y.shape[2:]))

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.reshape(self.groups, len(weight) // self.groups, math.prod(weight.shape[1:]))

    def _columns(self, x: Tensor) -> Tensor:
        """[batch, groups, channels * taps, out]."""
        rank = len(self.windows)
        for i, table in enumerate(self.windows):
            x = read(x, 2 + 2 * i, table)  # an axis that was read has become two: taps, positions
        order = [0, 1, *(2 + 2 * i for i in range(rank)), *(3 + 2 * i for i in range(rank))]
        return x.permute(order).reshape(len(x), self.groups, -1, math.prod(t.shape[1] for t in self.windows))

    def _fold(self, data: Tensor, inverse: Taps) -> Tensor:
        """Sum the taps on axis 2 into the input positions that they read, on the first output axis."""
        axis = 1 + len(self.windows)
        moved = data.movedim(2, -1).movedim(axis, -2)  # [..., out, taps]
        n = moved.shape[-1]
        flat = np.where(inverse >= 0, inverse * n + np.arange(n)[:, None], -1)
        return read(moved.flatten(-2), moved.ndim - 2, flat).sum(dim=-2).movedim(-1, axis)


def choose_convolution(op: Contract, sizes: Shape, fast: bool) -> TorchConvolution | TabledConvolution:
    """Return how to compute these windows over spatial axes of these sizes."""
    return (fast and _plain(op, sizes)) or TabledConvolution(op.windows, op.groups)


def read(data: Tensor, axis: int, table: Taps) -> Tensor:
    """Turn one axis into two: taps, positions. A tap of -1 reads zero."""
    flat = table.reshape(-1)
    if (flat < 0).any():
        data = torch.cat([data, torch.zeros_like(data.narrow(axis, 0, 1))], dim=axis)
        flat = np.where(flat < 0, data.shape[axis] - 1, flat)
    taken = data.index_select(axis, devices.send(flat, data.device))
    return taken.reshape(*data.shape[:axis], *table.shape, *data.shape[axis + 1 :])


def _plain(op: Contract, sizes: Shape) -> TorchConvolution | None:
    """Express the windows as a convolution of torch, or return None."""
    if len(op.windows) not in FORWARD:
        return None
    axes = [_axis(table, size) for table, size in zip(op.windows, sizes, strict=True)]
    if any(axis is None for axis in axes):
        return None
    strides, dilations, before, after = zip(*(axis for axis in axes if axis is not None), strict=True)
    pads = tuple(int(p) for pair in zip(before[::-1], after[::-1], strict=True) for p in pair)
    return TorchConvolution(strides, dilations, pads, op.groups)


def _axis(table: Taps, size: int) -> tuple[int, int, int, int] | None:
    """Return stride, dilation and padding before and after, found in the table and checked against it."""
    kernel, out = table.shape
    tap, o = np.nonzero(table >= 0)
    if not len(tap):
        return None
    inside = table >= 0
    along_o = np.nonzero(inside[:, 1:] & inside[:, :-1])
    along_tap = np.nonzero(inside[1:] & inside[:-1])
    stride = (
        int(table[along_o[0][0], along_o[1][0] + 1] - table[along_o[0][0], along_o[1][0]]) if len(along_o[0]) else 1
    )
    dilation = 1
    if len(along_tap[0]):
        dilation = int(table[along_tap[0][0] + 1, along_tap[1][0]] - table[along_tap[0][0], along_tap[1][0]])
    before = int(o[0] * stride + tap[0] * dilation - table[tap[0], o[0]])
    if (
        stride < 1
        or dilation < 1
        or not np.array_equal(sliding_to(out, size, kernel, stride=stride, dilation=dilation, before=before), table)
    ):
        return None
    return stride, dilation, before, (out - 1) * stride + dilation * (kernel - 1) + 1 - size - before
