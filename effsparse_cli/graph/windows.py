"""The geometry of convolution, pooling and interpolation as tables of taps, so that the engine has one kind of window.

A table is [taps, out]: the input position that each tap reads for each output position, -1 for padding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Ints, Taps


def _inside(position: NDArray[np.int64], size: int) -> Taps:
    return np.where((position >= 0) & (position < size), position, -1)


def sliding(size: int, kernel: int, *, stride: int = 1, dilation: int = 1, before: int = 0, after: int = 0) -> Taps:
    """Convolution or pooling; the output size follows from the padding."""
    out = (size + before + after - dilation * (kernel - 1) - 1) // stride + 1
    return sliding_to(max(out, 0), size, kernel, stride=stride, dilation=dilation, before=before)


def sliding_to(out: int, size: int, kernel: int, *, stride: int = 1, dilation: int = 1, before: int = 0) -> Taps:
    """Convolution or pooling with a given output size (ceil mode, same padding)."""
    tap, o = np.arange(kernel)[:, None], np.arange(out)[None, :]
    return _inside(o * stride + tap * dilation - before, size)


def pooled_size(size: int, kernel: int, *, stride: int, dilation: int, before: int, after: int, ceil: bool) -> int:
    """Return the output size of a pooling; in ceil mode a last window that starts in the padding is dropped."""
    span = size + before + after - dilation * (kernel - 1) - 1
    out = -(-span // stride) + 1 if ceil else span // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= size + before else out


def transposed(out: int, size: int, kernel: int, *, stride: int = 1, dilation: int = 1, before: int = 0) -> Taps:
    """Transposed convolution: tap k of output o reads input i where i*stride + k*dilation - before = o."""
    tap, o = np.arange(kernel)[:, None], np.arange(out)[None, :]
    shifted = o + before - tap * dilation
    return np.where(shifted % stride == 0, _inside(shifted // stride, size), -1)


def adaptive(size: int, out: int) -> Taps:
    """Adaptive pooling: window o runs from floor(o*size/out) to ceil((o+1)*size/out)."""
    o = np.arange(out)
    return spans(o * size // out, -(-(o + 1) * size // out))


def spans(start: Ints, stop: Ints) -> Taps:
    """Window o reads the positions from start[o] up to stop[o]."""
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
    """Interpolation: positions [taps, out] clamped to the edge, without those of weight zero."""
    return np.where(weight != 0, np.clip(position, 0, size - 1), -1)
