"""A picture of a layer as data: counts of connections by cell and by kind, exact at any resolution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.unsignedinteger[Any]]
Pair = tuple[int, int]

MOST_CELLS = 512
"""Maximum number of rows, and of columns, of cells."""


class Frame(NamedTuple):
    """A matrix of outputs by inputs, in which the kernels of a convolution are tiles, divided into cells. A cell is one
    connection, or covers whole kernels; the last ones may be cut off by the border."""

    outputs: int
    inputs: int
    kernel: Pair
    cell: Pair

    @classmethod
    def fit(cls, outputs: int, inputs: int, kernel: Pair) -> Frame:
        """Choose cells of one connection if all fit, else of as few kernels as possible."""
        if max(outputs * kernel[0], inputs * kernel[1]) <= MOST_CELLS:
            return cls(outputs, inputs, kernel, (1, 1))
        cell = kernel[0] * cell_size(outputs, MOST_CELLS), kernel[1] * cell_size(inputs, MOST_CELLS)
        return cls(outputs, inputs, kernel, cell)

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    @property
    def rows(self) -> int:
        return self.outputs * self.kernel[0]

    @property
    def columns(self) -> int:
        return self.inputs * self.kernel[1]

    @property
    def grid(self) -> Pair:
        """The number of rows and of columns of cells."""
        return -(-self.rows // self.cell[0]), -(-self.columns // self.cell[1])

    @property
    def shows_taps(self) -> bool:
        """Whether a kernel has several cells."""
        return self.cell == (1, 1) != self.kernel


@dataclass(frozen=True, eq=False)
class Fan:
    """Histograms over neurons by the number of their kept and of their active connections: 0, 1, 2-3, 4-7 and so on."""

    kept: NDArray[np.integer[Any]]
    active: NDArray[np.integer[Any]]

    @property
    def edges(self) -> list[int]:
        """The smallest number of each bin."""
        return [0, *(1 << k for k in range(len(self.kept) - 1))]


@dataclass(frozen=True, eq=False)
class Positions:
    """The output of a convolution: how many (channel, position) pairs of each cell are live and relevant. All axes but
    the last are rows."""

    height: int
    width: int
    channels: int
    cell: Pair
    counts: Counts


@dataclass(frozen=True, eq=False)
class Picture:
    """`counts` has, for each kind of which there are any, the number of connections in each cell; the others are
    pruned. `dead_rows` and `dead_columns` count the outputs and inputs without an active connection, each in the first
    row or column of cells that it has. With groups, a column is an input of every group."""

    frame: Frame
    counts: Mapping[str, Counts]
    dead_rows: Counts
    dead_columns: Counts
    fan_in: Fan
    fan_out: Fan
    positions: Positions | None = None

    def halve(self) -> Picture:
        """Return the picture with half as many rows and columns of cells, or with one cell per kernel."""
        frame = self.frame
        high, wide = frame.kernel if frame.shows_taps else (min(2, max(n, 1)) for n in frame.grid)
        return replace(
            self,
            frame=frame._replace(cell=(frame.cell[0] * high, frame.cell[1] * wide)),
            counts={kind: merge_cells(counts, (high, wide)) for kind, counts in self.counts.items()},
            dead_rows=merge_cells(self.dead_rows[:, None], (high, 1))[:, 0],
            dead_columns=merge_cells(self.dead_columns[:, None], (wide, 1))[:, 0],
        )


def cell_size(size: int, most: int) -> int:
    """Return the smallest power of two of which `most` cover the size."""
    return 1 << max(-(-size // most) - 1, 0).bit_length()


def merge_cells(counts: Counts, by: Pair, largest: int | None = None) -> Counts:
    """Add up blocks of `by` rows and columns; the last ones may be smaller. No count is above `largest`."""
    largest = int(counts.max(initial=0)) if largest is None else largest
    for step, merge in zip(by, (_merge_rows, _merge_columns), strict=True):
        largest *= step
        counts = counts if step == 1 else merge(counts, step, smallest_type(largest))
    return counts


def _merge_rows(counts: Counts, step: int, dtype: np.dtype[Any]) -> Counts:
    whole = len(counts) // step
    blocks = counts[: whole * step].reshape(whole, step, counts.shape[1])
    merged = np.add.reduce(blocks, axis=1, dtype=dtype)
    rest = counts[whole * step :]
    return np.concatenate([merged, np.add.reduce(rest, axis=0, dtype=dtype)[None]]) if len(rest) else merged


def _merge_columns(counts: Counts, step: int, dtype: np.dtype[Any]) -> Counts:
    whole = counts.shape[1] // step
    blocks = counts[:, : whole * step].reshape(len(counts), whole, step)
    if step <= 32:  # a sum over a short last axis is ten times slower
        merged = blocks[..., 0].astype(dtype)
        for k in range(1, step):
            merged += blocks[..., k]
    else:
        merged = np.add.reduce(blocks, axis=2, dtype=dtype)
    rest = counts[:, whole * step :]
    return np.hstack([merged, np.add.reduce(rest, axis=1, dtype=dtype)[:, None]]) if rest.shape[1] else merged


def smallest_type(largest: int) -> np.dtype[Any]:
    return np.dtype(np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32)
