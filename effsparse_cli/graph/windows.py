"""Geometry of windows: which input position each tap reads for each output position, as tables of taps.

A table is [taps, out]; -1 reads nothing (padding). Everything that convolutions, poolings and
interpolations differ in is in these tables, so the engines know only one kind of window.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Ints, Taps


def _inside(position: NDArray[np.int64], size: int) -> Taps:
    return np.where((position >= 0) & (position < size), position, -1)


def sliding(size: int, kernel: int, stride: int = 1, dilation: int = 1, before: int = 0, after: int = 0) -> Taps:
    """Convolution or pooling with the output size that the padding gives."""
    out = (size + before + after - dilation * (kernel - 1) - 1) // stride + 1
    return sliding_to(max(out, 0), size, kernel, stride, dilation, before)


def sliding_to(out: int, size: int, kernel: int, stride: int, dilation: int, before: int) -> Taps:
    """The same with a given output size (ceil mode, same padding)."""
    tap, o = np.arange(kernel)[:, None], np.arange(out)[None, :]
    return _inside(o * stride + tap * dilation - before, size)


def pooled_size(size: int, kernel: int, stride: int, dilation: int, before: int, after: int, ceil: bool) -> int:
    """Output size of a pooling; in ceil mode a last window that would start in the padding is dropped."""
    span = size + before + after - dilation * (kernel - 1) - 1
    out = -(-span // stride) + 1 if ceil else span // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= size + before else out


def transposed(out: int, size: int, kernel: int, stride: int, dilation: int, before: int) -> Taps:
    """Transposed convolution: output o gets tap k of input i where i*stride + k*dilation - before = o."""
    tap, o = np.arange(kernel)[:, None], np.arange(out)[None, :]
    shifted = o + before - tap * dilation
    return np.where(shifted % stride == 0, _inside(shifted // stride, size), -1)


def adaptive(size: int, out: int) -> Taps:
    """Adaptive pooling: window o runs from floor(o*size/out) to ceil((o+1)*size/out)."""
    o = np.arange(out)
    return spans(o * size // out, -(-(o + 1) * size // out))


def spans(start: Ints, stop: Ints) -> Taps:
    """Window o reads positions start[o] to stop[o], exclusive."""
    tap = np.arange(int((stop - start).max(initial=1)))[:, None]
    return np.where(tap < stop - start, start + tap, -1)


def from_matrix(reads: Bools) -> Taps:
    """The table of a boolean matrix [in, out] that is True where an output position reads an input position."""
    table = np.full((max(int(reads.sum(0).max(initial=1)), 1), reads.shape[1]), -1, dtype=np.int64)
    for o in range(reads.shape[1]):
        positions = np.flatnonzero(reads[:, o])
        table[: len(positions), o] = positions
    return table


def weighted(position: NDArray[np.int64], weight: NDArray[np.float64], size: int) -> Taps:
    """Interpolation: [taps, out] positions clamped to the edge, those of weight zero left out."""
    return np.where(weight != 0, np.clip(position, 0, size - 1), -1)
