"""Matrices of bits turned by 64x64 blocks, without a byte for each of them."""

from __future__ import annotations

import numpy as np

from effsparse_cli.paths.bits import Words

SLAB = 1 << 16
"""Words that are worked on at a time: few enough to stay in a processor's cache."""


def transpose(words: Words, columns: int) -> Words:
    """[rows, words of columns] to [columns, words of rows]. Tail bits are zero before and after."""
    rows, width = words.shape
    turned = np.empty((columns, -(-rows // 64)), np.uint64)
    step = 64 * max(SLAB // max(64 * width, 1), 1)
    for start in range(0, rows, step):
        slab = _turn(words[start : start + step])
        turned[:, start // 64 : start // 64 + slab.shape[1]] = slab[:columns]
    return turned


def _turn(words: Words) -> Words:
    """[rows, words] to [64 * words, words of rows]: block by block, halves of rows change places with halves of
    columns, then quarters, and so on."""
    rows, width = words.shape
    high = -(-rows // 64)
    padded = np.zeros((64 * high, width), np.uint64)
    padded[:rows] = words
    blocks = np.ascontiguousarray(padded.reshape(high, 64, width).transpose(1, 0, 2))
    for size in (32, 16, 8, 4, 2, 1):
        pairs = blocks.reshape(32 // size, 2, size, high, width)
        first, second = pairs[:, 0], pairs[:, 1]
        if size < 8:
            # Inside a byte, the first column is the highest bit.
            first, second = second, first
        changed = (first >> np.uint64(size) ^ second) & _lower(size)
        second ^= changed
        first ^= changed << np.uint64(size)
    return np.ascontiguousarray(blocks.transpose(2, 0, 1)).reshape(64 * width, high)


def _lower(size: int) -> np.uint64:
    """The lower bits of every pair of so many."""
    return np.uint64(sum(1 << bit for bit in range(64) if not bit & size))
