"""The real semiring (+, x) in torch: l1 path norms on any device, the paper's own pass.

Float64 with one binary exponent per array, so that depth can neither overflow nor vanish; or saturated to {0, 1} after
every step, which is exact in any precision and at any depth. Arrays have their full shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from effsparse_cli.graph.primitives import Bools, Ints, Shape, Taps
from effsparse_cli.paths import devices
from effsparse_cli.paths.real.convolutions import read

TINY = 2.0**-1000
FAR = 200
"""Maximum distance of an array from 1, in powers of two, before it is scaled."""
NOTHING = -(1 << 40)
"""The exponent of an array of zeros: lower than any other, so that it never sets the scale of a sum."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """data * 2**exponent. No element of data is negative, and none that has a path is zero."""

    data: Tensor
    exponent: int = 0


class RealArrays:
    def __init__(self, device: str, saturate: bool) -> None:
        self.dtype = torch.float32 if saturate else torch.float64
        self.device = devices.find_device(device, self.dtype)
        self._saturate = saturate
        # A fast convolution may leave a rounding error where a sum is zero; float64 on the CPU does not.
        self.exact_convolutions = saturate or self.device.type == "cpu"

    def settle(self, data: Tensor, exponent: int = 0) -> Scaled:
        """Scale an array whose largest element is far from 1. An element that would vanish becomes the smallest number
        instead: a value may be inexact, but never whether there is a path."""
        if self._saturate:
            return Scaled((data > 0.5).to(self.dtype))  # sums of ones: 0.5 is above the error of a fast convolution
        peak = float(devices.fetch(data.max())) if data.numel() else 0.0
        if peak == 0.0:
            return Scaled(data, NOTHING)
        shift = math.frexp(peak)[1]
        if abs(shift) < FAR:
            return Scaled(data, exponent)
        scaled = torch.ldexp(data, torch.full((), -shift, device=data.device))
        return Scaled(torch.where((data > 0) & (scaled < TINY), TINY, scaled), exponent + shift)

    def at(self, a: Scaled, exponent: int) -> Tensor:
        if a.exponent == exponent:
            return a.data
        lowered = torch.ldexp(a.data, torch.full((), max(a.exponent - exponent, -2000), device=a.data.device))
        return torch.where((a.data > 0) & (lowered < TINY), TINY, lowered)

    def lift(self, nonzero: Bools, shape: Shape) -> Scaled:
        data = devices.send(nonzero, self.device, self.dtype).expand(shape)
        return Scaled(data, 0 if nonzero.any() else NOTHING)

    def support(self, a: Scaled) -> Scaled:
        return a if self._saturate else Scaled((a.data > 0).to(self.dtype))

    def any(self, a: Scaled) -> bool:
        return bool(devices.fetch((a.data > 0).any()))

    def is_one(self, a: Scaled) -> bool:
        return self._saturate and bool(devices.fetch((a.data > 0).all()))

    def same(self, a: Scaled, b: Scaled) -> bool:
        alike = a.exponent == b.exponent and a.data.shape == b.data.shape
        return a is b or (alike and bool(devices.fetch((a.data == b.data).all())))

    def plus(self, terms: Sequence[Scaled]) -> Scaled:
        if len(terms) == 1:
            return terms[0]
        top = max(term.exponent for term in terms)
        total = self.at(terms[0], top)
        for term in terms[1:]:
            total = total + self.at(term, top)
        return self.settle(total, top)

    def product(self, equation: str, a: Scaled, b: Scaled) -> Scaled:
        return self.settle(torch.einsum(equation, a.data, b.data), a.exponent + b.exponent)

    def total(self, a: Scaled, axes: Sequence[int]) -> Scaled:
        return self.settle(a.data.sum(dim=tuple(axes), keepdim=True), a.exponent) if axes else a

    def expand(self, a: Scaled, shape: Shape) -> Scaled:
        return Scaled(a.data.expand(shape), a.exponent)

    def permute(self, a: Scaled, dims: Sequence[int]) -> Scaled:
        return Scaled(a.data.permute(tuple(dims)), a.exponent)

    def reshape(self, a: Scaled, old: Shape, new: Shape) -> Scaled:
        return Scaled(a.data.reshape(new), a.exponent)

    def take(self, a: Scaled, axis: int, index: Ints) -> Scaled:
        return Scaled(read(a.data, axis, index), a.exponent)

    def put(self, a: Scaled, axis: int, index: Ints, size: int) -> Scaled:
        where = devices.send(np.where(index >= 0, index, size), self.device)
        shape = (*a.data.shape[:axis], size + 1, *a.data.shape[axis + 1 :])
        result = torch.zeros(shape, dtype=self.dtype, device=self.device)
        return self.settle(result.index_add_(axis, where, a.data).narrow(axis, 0, size), a.exponent)

    def concat(self, parts: Sequence[Scaled], axis: int, sizes: Sequence[int]) -> Scaled:
        top = max(part.exponent for part in parts)
        return Scaled(torch.cat([self.at(part, top) for part in parts], dim=axis), top)

    def split(self, a: Scaled, axis: int, sizes: Sequence[int]) -> list[Scaled]:
        return [Scaled(part, a.exponent) for part in torch.split(a.data, list(sizes), dim=axis)]

    def window(self, a: Scaled, axis: int, table: Taps) -> Scaled:
        return self.settle(read(a.data, axis, table).sum(dim=axis), a.exponent)

    def unwindow(self, a: Scaled, axis: int, table: Taps, size: int) -> Scaled:
        return self.plus([self.put(a, axis, row, size) for row in table])
