"""N:M and block patterns: whether a layer's kept connections have one, and where they break one that is asked for.

A pattern is found only where so many kept connections strewn at random would not have it, and of several that hold the
tightest is named: the one that leaves the fewest masks to choose from. Rows are outputs, as operators use a weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from effsparse_cli.graph.primitives import Bools, Shape
from effsparse_cli.kernel.bits import Words, count, unpack
from effsparse_cli.paths.edges import Edges

CHANNELS = "whole channels"
CONSECUTIVE = tuple((n, m) for m in (2, 4, 8, 16, 32) for n in (1, 2, 4, 8, 16) if n < m)
"""The N:M that are looked for: powers of two, as hardware has them."""
CHANCE = 20.0
"""Minus the logarithm of the probability that a random mask has a pattern by chance: at most e^-20 is none."""
FIRST_PIECE = 1 << 12
"""Elements looked at first, and then four times as many each time: most layers show soon that they have no pattern."""


def find_pattern(found: Edges) -> str:
    """`2:4`, `4x4 blocks`, `whole channels`, or nothing."""
    shapes = {use.shape[1:] for use in found.uses}
    if len(shapes) != 1 or not (inner := shapes.pop()) or any(0 in use.shape for use in found.uses):
        return ""
    words = [use.kept.reshape(use.shape[0], -1) for use in found.uses]
    mask = _Mask(words[0] if len(words) == 1 else np.concatenate(words), inner)
    if not 0 < mask.kept < mask.size:
        return ""
    freedoms = dict(_channels(mask)) or {**dict(_blocks(mask)), **dict(_of_consecutive(mask))}
    return min(freedoms, key=freedoms.__getitem__, default="")


@dataclass(frozen=True)
class _Mask:
    """[rows, words] and the shape of a row: inputs, then taps."""

    words: Words
    inner: Shape

    @property
    def rows(self) -> int:
        return len(self.words)

    @property
    def inputs(self) -> int:
        return self.inner[0]

    @property
    def taps(self) -> int:
        return math.prod(self.inner[1:])

    @property
    def size(self) -> int:
        return self.rows * self.inputs * self.taps

    @cached_property
    def kept(self) -> int:
        return count(self.words)

    def bools(self, start: int, stop: int) -> Bools:
        return unpack(self.words[start:stop], self.inputs * self.taps).reshape(-1, self.inputs, self.taps)

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows, each four times as many as the last."""
        start, step = 0, max(FIRST_PIECE // (self.inputs * self.taps), 1)
        while start < self.rows:
            yield start, min(start + step, self.rows)
            start, step = start + step, 4 * step


def _channels(mask: _Mask) -> Iterator[tuple[str, float]]:
    """Some outputs of some inputs: what is kept of every output that keeps anything is the same inputs, whole."""
    alive, first = 0, mask.words[:1]
    for start, stop in mask.pieces():
        rows = mask.words[start:stop]
        rows = rows[rows.any(axis=1)]
        first = first if alive else rows[:1]
        alive += len(rows)
        if (rows != first).any():
            return
    inputs = unpack(first, mask.inputs * mask.taps).reshape(mask.inputs, mask.taps)
    if (inputs.any(axis=1) != inputs.all(axis=1)).any():
        return
    choices = _choices(mask.rows, alive) + _choices(mask.inputs, int(inputs.any(axis=1).sum()))
    if _choices(mask.size, mask.kept) - choices >= CHANCE:
        yield CHANNELS, choices / mask.size


def _blocks(mask: _Mask) -> Iterator[tuple[str, float]]:
    """Blocks begin where neighbours differ, so their sides divide the places of all differences."""
    height, width, before = 0, 0, mask.words[:1]
    for start, stop in mask.pieces():
        words = np.concatenate([before, mask.words[start:stop]])
        height = _divide(height, start + np.flatnonzero((words[1:] != words[:-1]).any(axis=1)))
        piece = mask.bools(start, stop)
        width = _divide(width, 1 + np.flatnonzero((piece[:, 1:] != piece[:, :-1]).any(axis=(0, 2))))
        if height == width == 1:
            return
        before = words[-1:]
    height, width = height or mask.rows, width or mask.inputs
    area = height * width
    chance = _choices(mask.size, mask.kept) - _choices(mask.size / area, mask.kept / area)
    if area > 1 and chance >= CHANCE:
        yield f"{height}x{width} blocks", 1 / area


def _of_consecutive(mask: _Mask) -> Iterator[tuple[str, float]]:
    """N of M consecutive inputs, for each tap, where at least half of what the pattern allows is kept."""
    density, lines = mask.kept / mask.size, mask.rows * mask.taps
    allowed = {(n, m): n * -(-mask.inputs // m) * lines for n, m in CONSECUTIVE if m <= mask.inputs}
    open_ = [pattern for pattern, most in allowed.items() if mask.kept <= most <= 2 * mask.kept]
    for start, stop in mask.pieces():
        if not open_:
            return
        most = _most(mask.bools(start, stop), max(m for _, m in open_))
        open_ = [(n, m) for n, m in open_ if most[m] <= n]
        if start == 0:
            open_ = [(n, m) for n, m in open_ if mask.inputs // m * lines * _chance_of(n, m, density) >= CHANCE]
    for n, m in open_:
        yield f"{n}:{m}", math.log2(sum(math.comb(m, k) for k in range(n + 1))) / m


def _chance_of(n: int, m: int, density: float) -> float:
    """Minus the logarithm of the probability that m random connections keep at most n."""
    within = sum(math.comb(m, k) * density**k * (1 - density) ** (m - k) for k in range(n + 1))
    return -math.log(min(within, 1.0))


def _most(kept: Bools, widest: int) -> dict[int, int]:
    """The most kept connections in any M consecutive inputs, for each M."""
    sums, short = kept.view(np.uint8), -kept.shape[1] % widest
    if short:
        sums = np.concatenate([sums, np.zeros((len(sums), short, sums.shape[2]), np.uint8)], axis=1)
    most, m = {}, 1
    while m < widest:
        sums, m = sums[:, ::2] + sums[:, 1::2], 2 * m
        most[m] = int(sums.max())
    return most


def _choices(size: float, kept: float) -> float:
    """The logarithm of the number of ways to keep so many."""
    return math.lgamma(size + 1) - math.lgamma(kept + 1) - math.lgamma(size - kept + 1)


def _divide(side: int, places: np.ndarray[tuple[int], np.dtype[np.intp]]) -> int:
    return int(np.gcd.reduce(places, initial=side))


def broken(kept: Bools, pattern: str) -> tuple[int, int]:
    """How many groups of [rows, inputs, *taps] break `2:4` or `4x4`, and how many there are. A last group may be
    short."""
    rows, inputs = kept.shape[:2]
    if ":" in pattern:
        n, m = map(int, pattern.split(":"))
        groups = np.add.reduceat(kept, np.arange(0, inputs, m), axis=1, dtype=np.int64)
        return int((groups > n).sum()), groups.size
    height, width = map(int, pattern.split("x"))
    sums = np.add.reduceat(kept, np.arange(0, rows, height), axis=0, dtype=np.int64)
    sums = np.add.reduceat(sums, np.arange(0, inputs, width), axis=1)
    heights = np.minimum(height, rows - np.arange(0, rows, height))
    widths = np.minimum(width, inputs - np.arange(0, inputs, width))
    sizes = np.outer(heights, widths).reshape(*sums.shape[:2], *[1] * (sums.ndim - 2))
    return int(((sums != 0) & (sums != sizes)).sum()), sums.size
