"""One bit per connection: rows of booleans packed into 64-bit words, in the weight's own order.

Tail bits are always zero, so words can be counted and compared without knowing how many are in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Ints
from effsparse_cli.graph.scan import Words as Words


def pack(rows: Bools) -> Words:
    """[..., columns] booleans to [..., words]."""
    columns = rows.shape[-1]
    width = -(-columns // 64) * 64
    if columns != width:
        padded = np.zeros((*rows.shape[:-1], width), bool)
        padded[..., :columns] = rows
        rows = padded
    return np.packbits(rows).view(np.uint64).reshape(*rows.shape[:-1], width // 64)


def unpack(words: Words, columns: int) -> Bools:
    """[..., words] to [..., columns] booleans."""
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, count=columns).view(np.bool_)


def some(a: NDArray[Any], axis: int | tuple[int, ...], keepdims: bool = False) -> Bools:
    """any() along axes, with a type that is always an array."""
    result: Bools = np.asarray(a.any(axis=axis, keepdims=keepdims))
    return result


def every(truth: Bools) -> bool:
    """all(), at a tenth of its price where there is little to ask."""
    return b"\0" not in truth.tobytes()


def anywhere(truth: Bools) -> bool:
    """any(), likewise."""
    return b"\1" in truth.tobytes()


def any_in_rows(words: Words) -> Bools:
    """[rows, words] to [rows]. Reduced along the long axis, which numpy is quick at."""
    return np.asarray(np.bitwise_or.reduce(np.ascontiguousarray(words.T), axis=0) != 0)


def or_rows(words: Words) -> Words:
    """[groups, rows, words] to [groups, words]."""
    joined: Words = np.bitwise_or.reduce(words, axis=1)
    return joined


def count(words: Words) -> int:
    return int(np.bitwise_count(words).sum(dtype=np.int64))


def fill(truth: Bools) -> Words:
    """[...] booleans to words that are all ones or all zeros."""
    return np.where(truth, ~np.uint64(0), np.uint64(0))


def places(words: Words) -> Ints:
    """Of every set bit, in order: its place among all bits. Zero words are dropped first, and then zero bytes."""
    flat = words.reshape(-1)
    word = (flat != 0).nonzero()[0]
    parts = flat[word].view(np.uint8)
    part = (parts != 0).nonzero()[0]
    found = np.unpackbits(parts[part]).nonzero()[0]
    part = part[found >> 3]
    place: Ints = (word[part >> 3] << 6) + ((part & 7) << 3) + (found & 7)
    return place


def at(columns: Ints) -> tuple[Ints, Words]:
    """The word that each column is in, and its bit there."""
    bits = np.zeros((len(columns), 8), np.uint8)
    bits[np.arange(len(columns)), (columns >> 3) & 7] = np.uint8(128) >> (columns & 7).astype(np.uint8)
    return columns >> 6, bits.view(np.uint64).reshape(-1)
