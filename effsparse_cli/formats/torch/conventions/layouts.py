"""Tensors that are not stored as plain numbers: sparse layouts (COO, CSR, CSC, BSR, BSC) and quantised types. Each
stands on the meta device with what reads its numbers; a stored zero is a zero, and so is a quantised zero point."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.conventions.found import File, Found, Read, times
from effsparse_cli.graph.primitives import Shape

MOST_ELEMENTS = 1 << 28
"""Of a weight that is written out: a file of a few bytes can announce one that no memory holds."""
COLUMNS_FIRST = (torch.sparse_csc, torch.sparse_bsc)


def find(file: File) -> Iterator[Found]:
    """`X.sparse_weight` in COO, a convolution's flattened to two dimensions, is X.weight."""
    for stored in file.free:
        head, _, last = stored.rpartition(".")
        if last == "sparse_weight" and file.tensors[stored].layout == torch.sparse_coo:
            name = f"{head}.weight" if head else "weight"
            tensor, read = plain(stored, file.tensors[stored])
            shape = file.shapes.get(name, tuple(tensor.shape))
            if math.prod(shape) != tensor.numel() or shape[0] != tensor.shape[0]:
                raise LoadError(f"{stored} is {times(tensor.shape)}, which cannot be the {times(shape)} of {name}")
            yield Found(name, (stored,), tensor.reshape(shape), values=partial(_reshaped, read or tensor.clone, shape))


def plain(name: str, tensor: torch.Tensor) -> tuple[torch.Tensor, Read | None]:
    """The tensor itself, or one on the meta device and what reads it."""
    if tensor.is_quantized:
        return torch.empty(tensor.shape, dtype=torch.float32, device="meta"), tensor.dequantize
    if tensor.layout == torch.strided:
        return tensor, None
    check_size(name, tuple(tensor.shape), f"stored as {str(tensor.layout).removeprefix('torch.')}")
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta"), partial(_dense, name, tensor.detach())


def check_size(name: str, shape: Shape, how: str) -> None:
    if math.prod(shape) > MOST_ELEMENTS:
        raise LoadError(
            f"{name} is {how} and would have {math.prod(shape):,} elements ({times(shape)}) when written out: more "
            f"than {MOST_ELEMENTS:,} are refused"
        )


def _reshaped(read: Read, shape: Shape) -> torch.Tensor:
    return read().reshape(shape)


def _dense(name: str, tensor: torch.Tensor) -> torch.Tensor:
    _check_indices(name, tensor)
    # Places that a COO tensor names twice hold the sum, which may be zero: to_dense adds them up.
    return tensor.to_dense()


def _check_indices(name: str, tensor: torch.Tensor) -> None:
    """Forged indices crash the process when they are followed, so they are checked before, however it was loaded."""
    try:
        if tensor.layout == torch.sparse_coo:
            torch._validate_sparse_coo_tensor_args(tensor._indices(), tensor._values(), tensor.shape)
        else:
            columns = tensor.layout in COLUMNS_FIRST
            outer = tensor.ccol_indices() if columns else tensor.crow_indices()
            inner = tensor.row_indices() if columns else tensor.col_indices()
            torch._validate_sparse_compressed_tensor_args(outer, inner, tensor.values(), tensor.shape, tensor.layout)
    except (RuntimeError, IndexError) as error:
        reason = str(error).splitlines()[0][:200]
        raise LoadError(f"{name} is a damaged sparse tensor: {reason}. Fetch or save the file again.") from error
