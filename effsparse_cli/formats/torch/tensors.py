"""Read the numbers of a tensor: where it is not zero, whether it is finite, and its values for NumPy. Dense tensors on
the CPU are read piece by piece in their own width, so that a mapped file takes little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.storage import find_release, iter_chunks, release
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.graph.stored_numbers import FIRST_NONFINITE, FiniteCheck, StoredNumbers

SIGNED = {torch.bfloat16: 0x7F80, torch.float16: 0x7C00, torch.float8_e5m2: 0x7C, torch.float8_e4m3fn: 0x7F}
"""Floats that NumPy lacks or is slow with: the smallest word, ignoring the sign, that is not a finite number."""
UNSIGNED = {torch.float8_e5m2fnuz: 0x80, torch.float8_e4m3fnuz: 0x80, torch.float8_e8m0fnu: 0xFF}
"""Floats with at most one zero and no infinity: the word that is NaN."""


def nonzero(tensor: torch.Tensor) -> Bools:
    """Return where a tensor is not zero: -0.0 is zero, NaN is not, a quantized zero is the zero point. It is
    compared on its device, so that only booleans are copied."""
    tensor = tensor.detach()
    if tensor.is_meta:
        raise LoadError("the model's weights are on the meta device and have no values; load them before measuring")
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.device.type != "cpu":
        wide = tensor.to(torch.float32) if tensor.is_floating_point() and tensor.element_size() == 1 else tensor
        return np.asarray((wide != 0).cpu().numpy())
    return _nonzero_on_cpu(tensor.resolve_conj().resolve_neg())


def kept_by_value(tensor: torch.Tensor) -> Callable[[], Bools]:
    """Return a function that finds what is kept of a tensor by its values, scanning its memory in place if possible."""
    if tensor.is_meta or tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_quantized:
        return partial(nonzero, tensor)
    if tensor.dtype == torch.float8_e8m0fnu or tensor.is_conj() or tensor.is_neg() or not tensor.is_contiguous():
        return partial(nonzero, tensor)
    return numbers_of(tensor.detach())


def very_negative(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return where a tensor is minus infinity or close to it, None if nowhere."""
    if not tensor.is_floating_point() or tensor.is_meta:
        return None
    found = tensor.detach().cpu() <= torch.finfo(tensor.dtype).min / 2
    return found if bool(found.any()) else None


def numbers(tensor: torch.Tensor) -> NDArray[Any]:
    """Return a tensor's values as a NumPy array; types that NumPy lacks become float32."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        narrow, tensor = tensor, tensor.to(torch.float32)
        release(narrow)
    return np.asarray(tensor.cpu().numpy())


def format_shape(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


def _nonzero_on_cpu(tensor: torch.Tensor) -> Bools:
    if tensor.dtype == torch.float8_e8m0fnu:
        return np.ones(tuple(tensor.shape), bool)  # powers of two, none of them zero
    if not tensor.is_contiguous():
        if tensor.dtype not in SIGNED and tensor.dtype not in UNSIGNED:
            return np.asarray(tensor.numpy() != 0)
        tensor = tensor.contiguous()
    found = np.empty(tensor.numel(), bool)
    for at, piece in iter_chunks(tensor):
        np.not_equal(_comparable(piece), 0, out=found[at : at + len(piece)])
    return found.reshape(tuple(tensor.shape))


def numbers_of(tensor: torch.Tensor) -> StoredNumbers:
    """Return the memory of a contiguous tensor, to be scanned; a mapped file is read in its order and then released."""
    words, shape, signed = _words(tensor), tuple(tensor.shape), tensor.dtype in SIGNED
    done = find_release(tensor)
    position = 0 if done is None else tensor.data_ptr()
    return StoredNumbers(lambda: words, shape, signed, position, done, _finite_check(tensor))


def _finite_check(tensor: torch.Tensor) -> FiniteCheck | None:
    if not tensor.is_floating_point():
        return None
    name = str(tensor.dtype).removeprefix("torch.")
    return FiniteCheck(partial(is_finite, tensor), SIGNED.get(tensor.dtype, FIRST_NONFINITE.get(name)))


def is_finite(tensor: torch.Tensor) -> bool:
    if tensor.device.type != "cpu":
        return bool(tensor.isfinite().all())
    return all(_all_finite(piece) for _, piece in iter_chunks(tensor.contiguous()))


def _all_finite(piece: torch.Tensor) -> bool:
    if piece.dtype in SIGNED:
        return bool(_comparable(piece).max() < SIGNED[piece.dtype] << 1)
    if piece.dtype in UNSIGNED:
        return not bool((_comparable(piece) == UNSIGNED[piece.dtype]).any())
    # A finite sum means finite values; it is much faster than testing each one.
    return bool(piece.sum().isfinite()) or bool(piece.isfinite().all())


def _comparable(piece: torch.Tensor) -> NDArray[Any]:
    """Return numbers that are zero where the tensor is: narrow floats as words without their sign."""
    if piece.dtype not in SIGNED and piece.dtype not in UNSIGNED:
        return np.asarray(piece.numpy())
    return _words(piece) << 1 if piece.dtype in SIGNED else _words(piece)


def _words(tensor: torch.Tensor) -> NDArray[Any]:
    """Return the values as NumPy has them, or narrow floats as words."""
    if tensor.dtype not in SIGNED and tensor.dtype not in UNSIGNED:
        return np.asarray(tensor.numpy())
    narrow, word = (torch.int8, "u1") if tensor.element_size() == 1 else (torch.int16, "u2")
    words: NDArray[Any] = tensor.view(narrow).numpy().view(word)
    return words
