"""Where the output of a convolution is alive: how many channels are live and relevant at each position."""

from __future__ import annotations

import math

import numpy as np

from effsparse_cli.analysis.pictures.picture import Counts, Positions, cell_size, merge_cells
from effsparse_cli.graph.equations import LETTERS
from effsparse_cli.graph.graph import Graph, Step
from effsparse_cli.graph.primitives import Contract, Shape
from effsparse_cli.paths.boolean.arrays import BOOLEAN
from effsparse_cli.paths.boolean.maps import BoolValue, ChannelMaps, to_array
from effsparse_cli.paths.edges import WeightUse
from effsparse_cli.paths.passes import Pass

MOST_CELLS = 64
"""Maximum number of rows, and of columns, of cells."""


def find_positions(graph: Graph, done: Pass[BoolValue, WeightUse]) -> dict[str, Positions]:
    """Return the positions of each layer that one convolution uses once. A channel is alive where it is in any element
    of the batch."""
    visits: dict[str, list[tuple[Step, BoolValue, BoolValue]]] = {}
    for step, live, relevant in done.convolved or ():
        assert step.weight is not None
        visits.setdefault(graph.layer_of(step.weight[0].layer), []).append((step, live, relevant))
    found = {name: _count(*visit[0]) for name, visit in visits.items() if len(visit) == 1}
    return {name: positions for name, positions in found.items() if positions.height * positions.width > 1}


def _count(step: Step, live: BoolValue, relevant: BoolValue) -> Positions:
    assert isinstance(step.op, Contract)
    shape, rank = step.shape, len(step.op.windows)
    letters, axis = LETTERS[: len(shape)], len(shape) - rank - 1
    both = BOOLEAN.product(f"{letters},{letters}->{letters}", live, relevant)
    counts = _sum_channels(BOOLEAN.total(both, range(axis)), axis, shape)
    height, width = math.prod(shape[axis + 1 : -1]), shape[-1]
    cell = cell_size(height, MOST_CELLS), cell_size(width, MOST_CELLS)
    counts = np.broadcast_to(counts, shape[axis + 1 :]).reshape(height, width)
    return Positions(height, width, shape[axis], cell, merge_cells(counts, cell))


def _sum_channels(alive: BoolValue, axis: int, shape: Shape) -> Counts:
    """Return the number of channels by position; axes of size 1 are uniform."""
    if isinstance(alive, ChannelMaps) and alive.axis == axis:
        times = np.bincount(alive.numbers, minlength=len(alive.table)) * (shape[axis] // len(alive.numbers))
        # Sums of fewer than 2 ** 53 ones are exact.
        counts = times.astype(np.float64) @ alive.bools().reshape(len(alive.table), -1)
        return counts.astype(np.uint32).reshape(alive.rest[axis:])
    array = to_array(alive)
    repeated = shape[axis] if array.shape[axis] == 1 else 1
    summed: Counts = array.sum(axis=tuple(range(axis + 1)), dtype=np.uint32) * np.uint32(repeated)
    return summed
