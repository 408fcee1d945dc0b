"""Tensors that are not stored dense: sparse layouts (COO, CSR, CSC, BSR, BSC) and quantised types. Each becomes a
tensor on the meta device and a reader of its values; explicit zeros and quantised zero points read as zeros."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.conventions.tensors import FileTensors, ModelTensor, ReadTensor, format_shape
from effsparse_cli.graph.primitives import Shape

MAX_ELEMENTS = 1 << 28
"""Limit for weights that are made dense: a file of a few bytes can declare one that does not fit into memory."""
COLUMN_MAJOR = (torch.sparse_csc, torch.sparse_bsc)


def find(file: FileTensors) -> Iterator[ModelTensor]:
    """Yield X.weight for each `X.sparse_weight` in COO; that of a convolution is flattened to two dimensions."""
    for stored in file.free:
        head, _, last = stored.rpartition(".")
        if last == "sparse_weight" and file.tensors[stored].layout == torch.sparse_coo:
            name = f"{head}.weight" if head else "weight"
            tensor, read = to_dense(stored, file.tensors[stored])
            shape = file.shapes.get(name, tuple(tensor.shape))
            if math.prod(shape) != tensor.numel() or shape[0] != tensor.shape[0]:
                raise LoadError(
                    f"{stored} has shape {format_shape(tensor.shape)}, which does not fit {name} of shape "
                    f"{format_shape(shape)}. Check --arch and --arch-arg."
                )
            values = partial(_read_reshaped, read or tensor.clone, shape)
            yield ModelTensor(name, (stored,), tensor.reshape(shape), values=values)


def to_dense(name: str, tensor: torch.Tensor) -> tuple[torch.Tensor, ReadTensor | None]:
    """Return a dense tensor and None, or a tensor on the meta device and a reader of its values."""
    if tensor.is_quantized:
        return torch.empty(tensor.shape, dtype=torch.float32, device="meta"), tensor.dequantize
    if tensor.layout == torch.strided:
        return tensor, None
    check_size(name, tuple(tensor.shape), f"stored as {str(tensor.layout).removeprefix('torch.')}")
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta"), partial(_read_dense, name, tensor.detach())


def check_size(name: str, shape: Shape, how: str) -> None:
    if math.prod(shape) > MAX_ELEMENTS:
        raise LoadError(
            f"{name} is {how} and would have {math.prod(shape):,} elements ({format_shape(shape)}) when made dense; "
            f"the limit is {MAX_ELEMENTS:,}."
        )


def _read_reshaped(read: ReadTensor, shape: Shape) -> torch.Tensor:
    return read().reshape(shape)


def _read_dense(name: str, tensor: torch.Tensor) -> torch.Tensor:
    _check_indices(name, tensor)
    # Duplicate indices of a COO tensor are summed, and the sum may be zero: to_dense adds them up.
    return tensor.to_dense()


def _check_indices(name: str, tensor: torch.Tensor) -> None:
    """Check indices before they are used: forged ones crash the process."""
    try:
        if tensor.layout == torch.sparse_coo:
            torch._validate_sparse_coo_tensor_args(tensor._indices(), tensor._values(), tensor.shape)
        else:
            columns = tensor.layout in COLUMN_MAJOR
            outer = tensor.ccol_indices() if columns else tensor.crow_indices()
            inner = tensor.row_indices() if columns else tensor.col_indices()
            torch._validate_sparse_compressed_tensor_args(outer, inner, tensor.values(), tensor.shape, tensor.layout)
    except (RuntimeError, IndexError) as error:
        reason = str(error).splitlines()[0][:200]
        raise LoadError(f"{name} is a damaged sparse tensor: {reason}. Download or save the file again.") from error
