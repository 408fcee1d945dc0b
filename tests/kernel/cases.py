"""Random cases for the kernel: packed weights, geometries, and maps of positions at both ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from effsparse_cli.graph.primitives import Taps
from effsparse_cli.kernel.bits import Words, pack, words_of
from effsparse_cli.kernel.numpy_loops import number
from effsparse_cli.kernel.structures import FULL, MapNumbers, NumberedMaps
from effsparse_cli.paths.boolean.geometry import WindowGeometry, build_geometries

LONGEST = {0: 1, 1: 200, 2: 24, 3: 8}


@dataclass(frozen=True)
class Ends:
    """Channels or rows: the number of the map of each, and the table of maps."""

    numbers: MapNumbers | None
    table: Words | None


@dataclass(frozen=True)
class Case:
    words: Words
    groups: int
    channels: int
    x: Ends
    y: Ends
    forward: WindowGeometry
    backward: WindowGeometry


@st.composite
def tables(draw: st.DrawFn, size: int) -> Taps:
    """A window along one axis: strided, dilated, padded, or with holes."""
    taps, stride, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    padding = draw(st.integers(0, 3))
    out = max((size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1, 1)
    table = stride * np.arange(out) - padding + dilation * np.arange(taps)[:, None]
    table = np.where((table >= 0) & (table < size), table, -1)
    if draw(st.booleans()):
        holes = np.random.default_rng(draw(st.integers(0, 1 << 32))).random(table.shape) < 0.2
        table = np.where(holes, -1, table)
    return table


@st.composite
def ends(draw: st.DrawFn, channels: int, positions: int, random: np.random.Generator) -> Ends:
    kind = draw(st.sampled_from(["full", "plain", "maps"]))
    if kind == "full":
        return Ends(None, None)
    if kind == "maps":
        density = draw(st.floats(0, 1))
        maps = random.random((draw(st.integers(1, 12)), positions)) < density
        ends = np.zeros((1, positions), bool), np.ones((1, positions), bool)
        found = number(pack(np.concatenate([*ends, maps])), len(maps) + 2, positions)
        if not isinstance(found, int) and found[1] is not None:
            rows = np.frombuffer(found[1], np.uint64).reshape(-1, words_of(positions))
            return Ends(random.integers(0, len(rows), channels).astype(np.int32), rows)
    return Ends(random.integers(0, 2, channels).astype(np.int32), None)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    rank, batch = draw(st.integers(0, 3)), draw(st.sampled_from([1, 1, 2, 3]))
    sizes = tuple(draw(st.integers(1, LONGEST[rank])) for _ in range(rank))
    windows = tuple(draw(tables(size)) for size in sizes)
    forward, backward = build_geometries(windows, sizes, batch)
    if draw(st.booleans()):  # a transposed convolution
        forward, backward = backward, forward
    groups, rows, channels = draw(st.integers(1, 3)), draw(st.integers(1, 40)), draw(st.integers(1, 40))
    density = 10 ** draw(st.floats(-3, 0))
    words = pack(random.random((groups, rows, channels * forward.geometry.taps)) < density)
    x = draw(ends(groups * channels, forward.geometry.positions, random))
    y = draw(ends(groups * rows, forward.geometry.outputs, random))
    return Case(words, groups, channels, x, y, forward, backward)


def maps_of(found: NumberedMaps, channels: int, positions: int) -> Words:
    """Return the content of a kernel's result: [channels, words]."""
    table: Words = pack(np.repeat([[False], [True]], positions, axis=1))
    if isinstance(found, int):
        return table[[found] * channels]
    numbers = np.frombuffer(found[0], np.int32)
    assert len(set(numbers.tolist())) > 1 or numbers[0] > FULL
    if found[1] is not None:
        table = np.frombuffer(found[1], np.uint64).reshape(-1, words_of(positions))
    return table[numbers]
