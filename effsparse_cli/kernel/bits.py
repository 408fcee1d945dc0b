"""Rows of booleans as 64-bit words: bit k % 64 of word k / 64 is column k.

Tail bits are always zero, so words can be counted and compared without knowing how many are in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]


def words_of(bits: int) -> int:
    """Return the number of words for a number of bits."""
    return -(-bits // 64)


def pack(rows: Bools) -> Words:
    """Pack [..., columns] booleans into [..., words]."""
    columns = rows.shape[-1]
    width = 64 * words_of(columns)
    if columns != width:
        padded = np.zeros((*rows.shape[:-1], width), bool)
        padded[..., :columns] = rows
        rows = padded
    return np.packbits(rows, bitorder="little").view(np.uint64).reshape(*rows.shape[:-1], width // 64)


def unpack(words: Words, columns: int) -> Bools:
    """Unpack [..., words] into [..., columns] booleans."""
    data = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(data, axis=-1, count=columns, bitorder="little").view(np.bool_)


def some(a: NDArray[Any], axis: int | tuple[int, ...], keepdims: bool = False) -> Bools:
    """any() along axes, typed as an array."""
    result: Bools = np.asarray(a.any(axis=axis, keepdims=keepdims))
    return result


def anywhere(truth: Bools) -> bool:
    """any(), ten times faster for small arrays."""
    return b"\1" in truth.tobytes()


def count(words: Words) -> int:
    return int(np.bitwise_count(words).sum(dtype=np.int64))


def fill(truth: Bools) -> Words:
    """Return words that are all ones where `truth` holds, all zeros elsewhere."""
    return np.where(truth, ~np.uint64(0), np.uint64(0))
