"""N:M and block patterns: the one that a layer's kept connections have, found from packed weights, and the groups that
break a pattern that a check requires.

A pattern is reported only if as many kept connections at random would not have it. Of several, the one that allows the
fewest masks is named. Rows are outputs, as the operator uses the weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.primitives import Bools, Shape
from effsparse_cli.kernel.bits import Words, count, unpack, words_of
from effsparse_cli.paths.edges import Edges

CHANNELS = "whole channels"
CONSECUTIVE = tuple((n, m) for m in (2, 4, 8, 16, 32) for n in (1, 2, 4, 8, 16) if n < m)
"""The N:M patterns that are recognized: powers of two, as hardware supports them."""
CHANCE = 20.0
"""Minimum of -log(probability that a random mask has the pattern)."""
FIRST_PIECE = 1 << 12
"""Elements of the first piece, at least 64 rows. Each piece is four times as large as the one before, because most
layers show soon that they have no pattern."""


def find_pattern(edges: Edges) -> str:
    """Return `2:4`, `4x4 blocks`, `whole channels`, or nothing."""
    shapes = {use.shape[1:] for use in edges.uses}
    if len(shapes) != 1 or not (inner := shapes.pop()) or any(0 in use.shape for use in edges.uses):
        return ""
    words = [use.kept.reshape(use.shape[0], -1) for use in edges.uses]
    mask = _Mask(words[0] if len(words) == 1 else np.concatenate(words), inner)
    if not 0 < mask.kept < mask.size:
        return ""
    freedoms = dict(_find_channels(mask)) or {**dict(_find_blocks(mask)), **dict(_find_consecutive(mask))}
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

    def columns(self, start: int, stop: int) -> Words:
        """Some rows, transposed: [inputs, taps, words of rows]."""
        words = self.words[start:stop]
        transposed = np.empty((self.inputs, self.taps, words_of(len(words))), np.uint64)
        kernel.transpose(words, transposed, len(words), self.inputs * self.taps)
        return transposed

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows, each four times as long as the last."""
        start, step = 0, max(FIRST_PIECE // (self.inputs * self.taps), 64)
        while start < self.rows:
            yield start, min(start + step, self.rows)
            start, step = start + step, 4 * step


def _find_channels(mask: _Mask) -> Iterator[tuple[str, float]]:
    """Some outputs of some inputs: every output that keeps anything keeps the same inputs, whole."""
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


def _find_blocks(mask: _Mask) -> Iterator[tuple[str, float]]:
    """Blocks start where neighbours differ, so their sides divide the positions of all differences."""
    height, width, before = 0, 0, mask.words[:1]
    for start, stop in mask.pieces():
        words = np.concatenate([before, mask.words[start:stop]])
        height = _divide(height, start + np.flatnonzero((words[1:] != words[:-1]).any(axis=1)))
        columns = mask.columns(start, stop)
        width = _divide(width, 1 + np.flatnonzero((columns[1:] != columns[:-1]).any(axis=(1, 2))))
        if height == width == 1:
            return
        before = words[-1:]
    height, width = height or mask.rows, width or mask.inputs
    area = height * width
    chance = _choices(mask.size, mask.kept) - _choices(mask.size / area, mask.kept / area)
    if area > 1 and chance >= CHANCE:
        yield f"{height}x{width} blocks", 1 / area


def _find_consecutive(mask: _Mask) -> Iterator[tuple[str, float]]:
    """N of M consecutive inputs, for each tap, if at least half of what the pattern allows is kept."""
    density, lines = mask.kept / mask.size, mask.rows * mask.taps
    allowed = {(n, m): n * -(-mask.inputs // m) * lines for n, m in CONSECUTIVE if m <= mask.inputs}
    left = [pattern for pattern, most in allowed.items() if mask.kept <= most <= 2 * mask.kept]
    left = [(n, m) for n, m in left if mask.inputs // m * lines * _chance_of(n, m, density) >= CHANCE]
    for start, stop in mask.pieces():
        if not left:
            return
        most = _count_most(mask.columns(start, stop), max(m for _, m in left))
        left = [(n, m) for n, m in left if most[m] <= n]
    for n, m in left:
        yield f"{n}:{m}", math.log2(sum(math.comb(m, k) for k in range(n + 1))) / m


def _chance_of(n: int, m: int, density: float) -> float:
    """Return -log(probability that m random connections keep at most n)."""
    within = sum(math.comb(m, k) * density**k * (1 - density) ** (m - k) for k in range(n + 1))
    return -math.log(min(within, 1.0))


def _count_most(columns: Words, widest: int) -> dict[int, int]:
    """Return the most kept connections in any M consecutive inputs, for each M up to `widest`. Counts are bit-sliced:
    word by word, `digits` has their binary digits, lowest first."""
    short = -len(columns) % widest
    digits = [np.concatenate([columns, np.zeros((short, *columns.shape[1:]), np.uint64)]) if short else columns]
    most, m = {}, 1
    while m < widest:
        digits, m = _add([digit[::2] for digit in digits], [digit[1::2] for digit in digits]), 2 * m
        most[m] = _largest(digits)
    return most


def _add(left: Sequence[Words], right: Sequence[Words]) -> list[Words]:
    digits = [left[0] ^ right[0]]
    carry = left[0] & right[0]
    for a, b in zip(left[1:], right[1:], strict=True):
        half = a ^ b
        digits.append(half ^ carry)
        carry = (a & b) | (half & carry)
    return [*digits, carry]


def _largest(digits: Sequence[Words]) -> int:
    largest, candidates = 0, ~np.zeros_like(digits[0])
    for k in reversed(range(len(digits))):
        remaining = digits[k] & candidates
        if remaining.any():
            largest, candidates = largest + (1 << k), remaining
    return largest


def _choices(size: float, kept: float) -> float:
    """Return the logarithm of the number of ways to keep `kept` of `size`."""
    return math.lgamma(size + 1) - math.lgamma(kept + 1) - math.lgamma(size - kept + 1)


def _divide(side: int, places: np.ndarray[tuple[int], np.dtype[np.intp]]) -> int:
    return int(np.gcd.reduce(places, initial=side))


def broken(kept: Bools, pattern: str) -> tuple[int, int]:
    """Return how many groups of [rows, inputs, *taps] break `2:4` or `4x4`, and how many there are. The last group may
    be short."""
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
