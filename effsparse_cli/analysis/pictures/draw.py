"""Draw layers: from the packed connections of a pass to counts by cell, with outputs as rows. Bits are unpacked in
pieces, so that memory stays bounded for layers of any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.analysis.pictures.picture import Counts, Fan, Frame, Picture, Positions, merge_cells, smallest_type
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools, Contract, Scan, Shape, Weight
from effsparse_cli.kernel.bits import Words, pack, unpack
from effsparse_cli.paths.edges import Edges
from effsparse_cli.paths.layouts import Layout

KINDS = ("active", "no_input", "no_output", "both", "padding", "carrier")
"""The first five partition the kept connections; carriers are inactive ones."""
PIECE = 1 << 20
"""Number of connections to unpack at once; more if a row of cells has more."""

Numbers = NDArray[np.int64]


def draw_layer(edges: Edges, layout: Layout, groups: int = 1, positions: Positions | None = None) -> Picture:
    """Draw a layer in its canonical layout, or as stored if its uses disagree: the first axis by the others."""
    frame, counts = find_frame(layout), edges.counts
    read = _find_reader(edges, layout, frame)
    words = {kind: read(kind) for kind in KINDS if getattr(counts, kind)}
    kept = read("kept")
    active = words.get("active", np.zeros_like(kept))
    return draw(frame, words, kept=kept, active=active, groups=groups, positions=positions)


def draw(
    frame: Frame,
    words: Mapping[str, Words],
    *,
    kept: Words,
    active: Words,
    groups: int = 1,
    positions: Positions | None = None,
) -> Picture:
    """Draw connections by kind, [rows, words]. Dead neurons and histograms are those of `kept` and `active`."""
    fan_in, fan_out = [], []
    for each in (active,) if kept is active else (active, kept):
        fan_in.append(np.bitwise_count(each).sum(axis=-1, dtype=np.int64))
        columns = _count_columns(
            each.reshape(groups, frame.outputs // groups, each.shape[1]), frame.inputs * frame.taps
        )
        fan_out.append(columns.reshape(groups, frame.inputs, frame.taps).sum(axis=-1))
    return Picture(
        frame,
        {kind: _count_cells(each, frame) for kind, each in words.items()},
        dead_rows=_place(fan_in[0] == 0, frame.kernel[0], frame.cell[0]),
        dead_columns=_place(~fan_out[0].any(axis=0), frame.kernel[1], frame.cell[1]),
        fan_in=_build_fan(fan_in[-1], fan_in[0]),
        fan_out=_build_fan(fan_out[-1].reshape(-1), fan_out[0].reshape(-1)),
        positions=positions,
    )


def find_groups(graph: Graph, layouts: Mapping[str, Layout]) -> dict[str, int]:
    """Return the number of groups of each layer, 1 if its uses disagree."""
    found: dict[str, set[int]] = {name: set() for name in layouts}
    for weight, shape, groups in _contractions(graph):
        name = graph.layer_of(weight.layer)
        found[name].add(groups if shape == layouts[name].shape else 1)
    return {name: groups.pop() if len(groups) == 1 else 1 for name, groups in found.items()}


def _contractions(graph: Graph) -> Iterator[tuple[Weight, Shape, int]]:
    for step in graph.steps:
        if isinstance(step.op, Scan):
            yield from _contractions(step.op.body)
        elif isinstance(step.op, Contract) and step.weight is not None:
            yield *step.weight, step.op.groups


def find_frame(layout: Layout) -> Frame:
    """Return the frame of a layer's picture: of a kernel, all axes but the last are rows."""
    shape = layout.shape if layout.rows else (*layout.stored[:1], math.prod(layout.stored[1:]))
    outputs, inputs, *taps = (*shape, *(1,) * (2 - len(shape)))
    return Frame.fit(outputs, inputs, (math.prod(taps[:-1]), taps[-1] if taps else 1))


def _find_reader(edges: Edges, layout: Layout, frame: Frame) -> Callable[[str], Words]:
    """Return a function from a kind to the connections of that kind, [rows, words]."""
    for use in edges.uses:
        if (len(edges.uses) == 1 or use.all_active) and layout.has_rows_of(use.weight.view, use.shape):
            return lambda kind: (words := use.words(kind)).reshape(frame.outputs, words.shape[-1])

    def read(kind: str) -> Words:
        mask = edges.mask(kind)
        return pack_rows(layout.read(mask) if layout.rows else mask, frame)

    return read


def pack_rows(mask: Bools, frame: Frame) -> Words:
    return pack(mask.reshape(frame.outputs, frame.inputs * frame.taps))


def _count_columns(words: Words, columns: int) -> Numbers:
    """Count down the columns of every group: [groups, rows, words] to [groups, columns]."""
    groups, rows, _ = words.shape
    found = np.zeros((groups, columns), np.int64)
    tall = max(PIECE // max(columns, 1), 1)
    many = max(tall // max(rows, 1), 1)
    for group in range(0, groups, many):
        for row in range(0, rows, tall):
            bits = unpack(words[group : group + many, row : row + tall], columns).view(np.uint8)
            found[group : group + many] += np.add.reduce(bits, axis=1, dtype=np.uint32)
    return found


def _count_cells(words: Words, frame: Frame) -> Counts:
    """Count the connections in each cell: [rows, words] to [rows of cells, columns of cells]."""
    columns = frame.inputs * frame.taps
    if frame.shows_taps:
        bits = unpack(words, columns).view(np.uint8)
        by_tap = bits.reshape(frame.outputs, frame.inputs, *frame.kernel).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(by_tap).reshape(frame.grid)
    high, wide = frame.cell[0] // frame.kernel[0], frame.cell[1] // frame.kernel[1]
    step = high * max(PIECE // max(columns * high, 1), 1)
    pieces = [np.empty((0, frame.grid[1]), smallest_type(math.prod(frame.cell)))]
    for start in range(0, frame.outputs, step):
        bits = unpack(words[start : start + step], columns).view(np.uint8)
        pieces.append(merge_cells(bits, (high, wide * frame.taps), largest=1))
    return np.concatenate(pieces)


def _place(dead: NDArray[np.bool_], taps: int, cell: int) -> Counts:
    """Count dead neurons in the cells along an axis; one that has several cells counts in the first."""
    at = np.zeros((len(dead) * taps, 1), np.uint8)
    at[::taps, 0] = dead
    return merge_cells(at, (cell, 1))[:, 0]


def _build_fan(kept: Numbers, active: Numbers) -> Fan:
    # The binary exponent of a number is that of its bin: 0, 1, 2-3, 4-7.
    bins = [np.bincount(np.frexp(numbers)[1]) for numbers in (kept, active)]
    most = max(map(len, bins))
    return Fan(*(np.pad(each, (0, most - len(each))) for each in bins))
