"""One bit per connection: rows of booleans packed into 64-bit words, in the weight's own order.

Tail bits are always zero, so words can be counted and compared without knowing how many are in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools

Words = NDArray[np.uint64]


def pack(rows: Bools) -> Words:
    """[..., columns] booleans to [..., words]."""
    packed = np.packbits(rows, axis=-1)
    tail = -packed.shape[-1] % 8
    if tail:
        packed = np.concatenate([packed, np.zeros((*packed.shape[:-1], tail), np.uint8)], axis=-1)
    return np.ascontiguousarray(packed).view(np.uint64)


def unpack(words: Words, columns: int) -> Bools:
    """[..., words] to [..., columns] booleans."""
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, count=columns).view(np.bool_)


def some(a: NDArray[Any], axis: int | tuple[int, ...], keepdims: bool = False) -> Bools:
    """any() along axes, with a type that is always an array."""
    result: Bools = np.asarray(a.any(axis=axis, keepdims=keepdims))
    return result


def count(words: Words) -> int:
    return int(np.bitwise_count(words).sum(dtype=np.int64))


def fill(truth: Bools) -> Words:
    """[...] booleans to words that are all ones or all zeros."""
    return np.where(truth, ~np.uint64(0), np.uint64(0))
