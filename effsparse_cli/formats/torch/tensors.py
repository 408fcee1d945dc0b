"""Reads a dense tensor on the CPU piece by piece, in its own width: where it is not zero, and whether all of it is
finite. Of a mapped file no more than one piece is in memory at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from effsparse_cli.formats.torch.checkpoint.storage.mapped import pieces, releasing
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.graph.stored_numbers import StoredNumbers

SIGNED = {torch.bfloat16: 0x7F80, torch.float16: 0x7C00, torch.float8_e5m2: 0x7C, torch.float8_e4m3fn: 0x7F}
"""Floats that numpy lacks or is slow with: the first word, its sign aside, that is no finite number."""
UNSIGNED = {torch.float8_e5m2fnuz: 0x80, torch.float8_e4m3fnuz: 0x80, torch.float8_e8m0fnu: 0xFF}
"""Floats with at most one zero and no infinity: the word that is NaN."""


def find_nonzero(tensor: torch.Tensor) -> Bools:
    """-0.0 is zero, NaN is not."""
    if tensor.dtype == torch.float8_e8m0fnu:
        return np.ones(tuple(tensor.shape), bool)  # powers of two, none of them zero
    if not tensor.is_contiguous():
        if tensor.dtype not in SIGNED and tensor.dtype not in UNSIGNED:
            return np.asarray(tensor.numpy() != 0)
        tensor = tensor.contiguous()
    found = np.empty(tensor.numel(), bool)
    for at, piece in pieces(tensor):
        np.not_equal(_comparable(piece), 0, out=found[at : at + len(piece)])
    return found.reshape(tuple(tensor.shape))


def numbers_of(tensor: torch.Tensor) -> StoredNumbers:
    """A contiguous tensor's memory, to be scanned; that of a mapped file in its order, and given back after that."""
    words, shape, signed = _words(tensor), tuple(tensor.shape), tensor.dtype in SIGNED
    done = releasing(tensor)
    return StoredNumbers(lambda: words, shape, signed, 0 if done is None else tensor.data_ptr(), done)


def is_finite(tensor: torch.Tensor) -> bool:
    return all(_all_finite(piece) for _, piece in pieces(tensor.contiguous()))


def _all_finite(piece: torch.Tensor) -> bool:
    if piece.dtype in SIGNED:
        return bool(_comparable(piece).max() < SIGNED[piece.dtype] << 1)
    if piece.dtype in UNSIGNED:
        return not bool((_comparable(piece) == UNSIGNED[piece.dtype]).any())
    # One sum first: it is finite unless a value is not, or the values are huge.
    return bool(piece.sum().isfinite()) or bool(piece.isfinite().all())


def _comparable(piece: torch.Tensor) -> NDArray[Any]:
    """Numbers that are zero where the tensor's are: narrow floats as words, without their sign."""
    if piece.dtype not in SIGNED and piece.dtype not in UNSIGNED:
        return np.asarray(piece.numpy())
    return _words(piece) << 1 if piece.dtype in SIGNED else _words(piece)


def _words(tensor: torch.Tensor) -> NDArray[Any]:
    """As numpy has them, or narrow floats as words."""
    if tensor.dtype not in SIGNED and tensor.dtype not in UNSIGNED:
        return np.asarray(tensor.numpy())
    narrow, word = (torch.int8, "u1") if tensor.element_size() == 1 else (torch.int16, "u2")
    words: NDArray[Any] = tensor.view(narrow).numpy().view(word)
    return words
