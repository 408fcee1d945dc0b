"""Ranks of the scores within one layer. Among equal scores the earlier position is kept longer, as in selection
(topk.py), so ranks are exact despite ties.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]


def order_within(scores: Scores) -> Positions:
    """Return flat positions, the first to be pruned first. Scores must not contain NaN.

    This is one sort of 64-bit keys, the leading bits of a score above its position, which is four times faster than a
    stable argsort. In a float64 the position replaces the last bits; scores that differ only there are sorted again.
    """
    wide = scores.dtype.itemsize == 8
    flat = np.add(np.ravel(scores), 0, dtype=np.float64 if wide else np.float32)  # -0.0 becomes 0.0
    position_bits = max(flat.size - 1, 0).bit_length()
    exact = not wide and position_bits <= 32
    keys = _sortable_bits(flat)
    if not exact:
        keys >>= position_bits
        keys <<= position_bits
    keys |= np.arange(flat.size - 1, -1, -1)
    keys.sort()
    order = np.bitwise_and(keys, (1 << position_bits) - 1, out=keys if exact else None)
    np.subtract(flat.size - 1, order, out=order)
    if not exact:
        keys >>= position_bits
        equal = keys[1:] == keys[:-1]
        unsure = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        positions = order[unsure]
        order[unsure] = positions[np.argsort(flat[positions], kind="stable")]
    return order


def order_best(scores: Scores, count: int) -> Positions:
    """Return the flat positions of the `count` best scores, as at the end of `order_within`, without sorting the
    rest."""
    if count == 0:
        return np.zeros(0, np.int64)
    flat = scores.reshape(-1)
    threshold = np.partition(flat, flat.size - count)[flat.size - count]
    best = np.flatnonzero(flat >= threshold)
    surplus = len(best) - count
    if surplus:
        # Drop the last of the scores that are equal to the threshold.
        ties = np.flatnonzero(flat[best] == threshold)
        best = np.delete(best, ties[len(ties) - surplus :])
    return best[order_within(flat[best])]


def rank_within(scores: Scores) -> Positions:
    """Return the rank of every score, in the shape of the scores: rank 0 is pruned first."""
    ranks = np.empty(scores.size, dtype=np.int64)
    ranks[order_within(scores)] = np.arange(scores.size)
    return ranks.reshape(scores.shape)


def _sortable_bits(values: Scores) -> Positions:
    """Return integers that sort like the floats; those of float32 leave the lower half free."""
    if values.dtype == np.float32:
        narrow = values.view(np.int32)
        wide = (narrow ^ ((narrow >> 31) & 0x7FFFFFFF)).astype(np.int64)
        wide <<= 32
        return wide
    bits = values.view(np.int64)
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
