"""Random: a uniform score per weight, the same for a seed on every machine and in every format.

The bits are those of the counter-based generator Philox4x64-10, keyed by the seed and the layer's position in
execution order, taken one per weight in the canonical layout (rows are outputs). They are used raw, because
numpy fixes the streams of its bit generators for good, but not what it makes of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError


def score(values: Sequence[NDArray[Any]], seed: int) -> list[NDArray[np.floating[Any]]]:
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"a seed is a whole number from 0 to 2^64 - 1, not {seed}")
    return [_draw(value.shape, seed, position) for position, value in enumerate(values)]


def _draw(shape: tuple[int, ...], seed: int, position: int) -> NDArray[np.float64]:
    """52 bits in the middle of their cells, so that neither 0 nor 1 occurs."""
    stream = np.random.Philox(key=seed + (position << 64))
    bits = np.asarray(stream.random_raw(math.prod(shape)), dtype=np.uint64)
    cells = (bits >> np.uint64(12)).astype(np.float64)
    return np.multiply(cells + 0.5, 2.0**-52).reshape(shape)
