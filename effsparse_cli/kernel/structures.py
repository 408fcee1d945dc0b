"""Arguments and results of the kernel's loops.

A weight is [groups, rows, words]: each row holds the bits of channels * taps columns. Every channel and every row has
the number of its map of positions: EMPTY, FULL, or a row of a table of maps, whose first two rows are the empty and the
full map. None for numbers means that all are full, None for a table that it has no other maps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EMPTY, FULL = 0, 1
IRREGULAR = np.iinfo(np.int64).max
"""In place of a distance that is not the same for all positions."""

MapNumbers = NDArray[np.int32]
NumberedMaps = int | tuple[bytes, bytes | None]
"""One number, EMPTY or FULL, for all; or the bytes of the numbers, and of their table if it has other maps."""


class Geometry(NamedTuple):
    """The input position that each tap reads for each output position. Both are counted row by row, batch included.

    `always` [taps]: whether the tap reads something for every output position; `covers` [taps, words]: for which ones.
    `distances` [taps]: input minus output position, or IRREGULAR. An irregular tap reads the sum of two tables, each -1
    where nothing is read: `front` [front taps, lines] has the start of the input line for each output line, and
    `last` [last taps, line length] the place in that line. `steps` [last taps, 5] has first output, output step, first
    input, input step and count of `last`; the count is -1 where there are no regular steps. `last` is empty if all are
    regular.

    Tables are bytes, which C reads at less cost than arrays: of uint8, int64, uint64 and, three times, int32.
    """

    taps: int
    positions: int
    outputs: int
    last_taps: int
    line_length: int
    always: bytes
    distances: bytes
    covers: bytes
    front: bytes
    steps: bytes
    last: bytes


class Packed(NamedTuple):
    """Result of packing rows: how many numbers are not zero, how many rows have none, and the largest bit pattern,
    without the sign where that is ignored. Floats are finite if the largest pattern is."""

    kept: int
    empty_rows: int
    largest: int
