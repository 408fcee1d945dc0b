"""Magnitude: the absolute value of each weight. What is not a number, or infinite, is kept longest: it can never
be called small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def score(values: Sequence[NDArray[Any]], seed: int) -> list[NDArray[np.floating[Any]]]:
    """In the weights' own precision, at least float32. The seed plays no part."""
    return [magnitude(value) for value in values]


def magnitude(value: NDArray[Any]) -> NDArray[np.floating[Any]]:
    size: NDArray[np.floating[Any]] = np.abs(value.astype(np.result_type(value.dtype, np.float32), copy=False))
    size[np.isnan(size)] = np.inf
    return size
