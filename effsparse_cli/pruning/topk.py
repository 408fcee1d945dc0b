"""Selection in large score arrays without sorting: the k-th largest, and exactly k with ties broken by position."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools

Scores = NDArray[Any]
BUCKET_BITS = 16


def kth_largest(arrays: Sequence[Scores], k: int) -> float:
    """Return the k-th largest value (from 1) over all arrays.

    A histogram of the leading bits of the floats finds the bucket; only that bucket is partitioned.
    """
    buckets = [_buckets(array) for array in arrays]
    counts = np.zeros(1 << BUCKET_BITS, np.int64)
    for numbers in buckets:
        counts += np.bincount(numbers, minlength=1 << BUCKET_BITS)
    above = np.cumsum(counts[::-1])
    place = int(np.searchsorted(above, k))
    bucket = (1 << BUCKET_BITS) - 1 - place
    inside = np.concatenate([a.reshape(-1)[numbers == bucket] for a, numbers in zip(arrays, buckets, strict=True)])
    rest = k - int(above[place] - counts[bucket])
    return float(np.partition(inside, len(inside) - rest)[len(inside) - rest])


def _buckets(array: Scores) -> NDArray[np.uint16]:
    """Return the leading bits of each float, mapped so that larger floats have larger numbers."""
    flat = np.ascontiguousarray(array).reshape(-1) + 0.0  # makes -0.0 and 0.0 equal
    leading = flat.view(np.uint16)[flat.itemsize // 2 - 1 :: flat.itemsize // 2]
    if sys.byteorder == "big":
        leading = flat.view(np.uint16)[:: flat.itemsize // 2]
    half = np.uint16(1 << (BUCKET_BITS - 1))
    return np.where(leading < half, leading | half, ~leading)


def keep_best(scores: Mapping[str, Scores], k: int) -> dict[str, Bools]:
    """Keep exactly the k best connections, or all with a score above -inf if these are fewer.

    Ties are broken by the order of layers, then of positions.
    """
    k = min(k, sum(int(np.count_nonzero(array > -np.inf)) for array in scores.values()))
    if k == 0:
        return {name: np.zeros(array.shape, bool) for name, array in scores.items()}
    threshold = kth_largest(list(scores.values()), k)
    left = k - sum(int(np.count_nonzero(array > threshold)) for array in scores.values())
    masks = {}
    for name, array in scores.items():
        mask = array > threshold
        ties = np.flatnonzero(array == threshold)[:left]
        mask.reshape(-1)[ties] = True
        left -= len(ties)
        masks[name] = mask
    return masks
