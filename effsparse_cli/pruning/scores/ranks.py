"""Ranks within one layer: scores enter, places leave. Among equal scores the earlier position is kept longer, as
in selection, so that a rank is exact whatever the ties.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.floating[Any]]
Places = NDArray[np.int64]


def order_within(scores: Scores) -> Places:
    """Flat positions, the first to fall first. Scores hold no NaN.

    One sort of 64-bit keys, the leading bits of a score above its position: four times quicker than a stable
    argsort. The positions of a float64 take the place of its last bits; the few that these tell apart are
    sorted again.
    """
    wide = scores.dtype.itemsize == 8
    flat = np.add(np.ravel(scores), 0, dtype=np.float64 if wide else np.float32)  # -0.0 becomes 0.0
    places = max(flat.size - 1, 0).bit_length()
    keys = _rising_bits(flat)
    keys >>= places
    keys <<= places
    keys |= np.arange(flat.size - 1, -1, -1)
    keys.sort()
    order = flat.size - 1 - (keys & ((1 << places) - 1))
    if wide or places > 32:
        keys >>= places
        alike = keys[1:] == keys[:-1]
        unsure = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
        among = order[unsure]
        order[unsure] = among[np.argsort(flat[among], kind="stable")]
    return order


def rank_within(scores: Scores) -> Places:
    """The place of every score in its layer, in the layer's shape: 0 falls first."""
    ranks = np.empty(scores.size, dtype=np.int64)
    ranks[order_within(scores)] = np.arange(scores.size)
    return ranks.reshape(scores.shape)


def _rising_bits(values: Scores) -> Places:
    """Integers in the order of the floats; those of float32 leave the lower half free."""
    if values.dtype == np.float32:
        narrow = values.view(np.int32)
        return (narrow ^ ((narrow >> 31) & 0x7FFFFFFF)).astype(np.int64) << 32
    bits = values.view(np.int64)
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
