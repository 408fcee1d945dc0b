"""Tensors that are not stored dense: sparse layouts (COO, CSR, CSC, BSR, BSC), quantised types, and the non-zero values
and bitmasks of the compressed-tensors library. Each becomes a tensor on the meta device and a reader of its values;
explicit zeros and quantised zero points read as zeros."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from effsparse_cli.errors import LoadError, first_line
from effsparse_cli.formats.torch.conventions.tensors import FileTensors, ModelTensor, ReadTensor
from effsparse_cli.formats.torch.tensors import format_shape
from effsparse_cli.graph.primitives import Bools, Shape

MAX_ELEMENTS = 1 << 28
"""Limit for weights that are made dense: a file of a few bytes can declare one that does not fit into memory."""
COLUMN_MAJOR = (torch.sparse_csc, torch.sparse_bsc)
PACKED = re.compile(r"^((?:.*\.)?)_packed_params\._packed_params\.([01])$")
PARTS = ("weight", "bias")
BITMASK = ".bitmask"


def find_sparse(file: FileTensors) -> Iterator[ModelTensor]:
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
        reason = first_line(error, 200)
        raise LoadError(f"{name} is a damaged sparse tensor: {reason}. Download or save the file again.") from error


def find_quantised(file: FileTensors) -> Iterator[ModelTensor]:
    for stored in file.free:
        match = PACKED.match(stored)
        if match is None:
            continue
        part = PARTS[int(match[2])]
        tensor, read = to_dense(stored, file.tensors[stored])
        # The quantisation parameters of activations are not tensors of the float model.
        scales = [f"{match[1]}{name}" for name in ("scale", "zero_point") if part == "weight"]
        sources = (stored, *(name for name in scales if name in file.free))
        yield ModelTensor(f"{match[1]}{part}", sources, tensor, values=read)


def find_compressed(file: FileTensors) -> Iterator[ModelTensor]:
    for bitmask in file.free:
        base = bitmask.removesuffix(BITMASK)
        parts = [f"{base}.{part}" for part in ("shape", "compressed", "row_offsets")]
        if base == bitmask or not all(part in file.tensors for part in parts[:2]):
            continue
        name = base if base.endswith("weight") else f"{base}.weight"
        shape, stored, bits = _read_shape(name, file.tensors[parts[0]]), file.tensors[parts[1]], file.tensors[bitmask]
        check_size(name, shape, "compressed to a bitmask")
        _check_bitmask(name, shape, stored, bits)
        sources = (bitmask, *(part for part in parts if part in file.tensors))
        tensor = torch.empty(shape, dtype=stored.dtype, device="meta")
        yield ModelTensor(name, sources, tensor, values=partial(decompress, stored, bits, shape))


def decompress(stored: torch.Tensor, bitmask: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Return the dense weight. The lowest bit of a byte comes first, and each row starts at a new byte."""
    dense = torch.zeros(shape, dtype=stored.dtype)
    positions = torch.from_numpy(unpack(bitmask, shape))
    if stored.element_size() == 1:
        # Eight-bit floats do not support indexed assignment, their bytes do.
        dense.view(torch.uint8)[positions] = stored.reshape(-1).view(torch.uint8)
    else:
        dense[positions] = stored.reshape(-1)
    return dense


def unpack(bitmask: torch.Tensor, shape: Shape) -> Bools:
    packed = bitmask.numpy().view(np.uint8).reshape(-1, bitmask.shape[-1])
    return np.unpackbits(packed, axis=-1, count=shape[-1], bitorder="little").view(np.bool_).reshape(shape)


def _read_shape(name: str, tensor: torch.Tensor) -> Shape:
    if tensor.is_floating_point() or tensor.is_complex() or not 1 <= tensor.numel() <= 8:
        raise LoadError(f"the shape of the compressed weight {name} is not a list of sizes. Compress the model again.")
    shape = tuple(int(n) for n in tensor.reshape(-1).tolist())
    if min(shape) < 1:
        raise LoadError(f"the compressed weight {name} has shape {format_shape(shape)}: sizes must be positive.")
    return shape


def _check_bitmask(name: str, shape: Shape, stored: torch.Tensor, bits: torch.Tensor) -> None:
    rows, width = math.prod(shape[:-1]), -(-shape[-1] // 8)
    if bits.dtype not in (torch.uint8, torch.int8) or bits.ndim < 1 or bits.numel() != rows * width:
        raise LoadError(
            f"the bitmask of {name} ({format_shape(bits.shape)}, {bits.dtype}) does not fit a weight of shape "
            f"{format_shape(shape)}, which needs {rows}x{width} bytes. Compress the model again."
        )
    if bits.shape[-1] != width:
        raise LoadError(f"the bitmask of {name} has rows of {bits.shape[-1]} bytes instead of {width}.")
    packed = bits.numpy().view(np.uint8).reshape(rows, width)
    # Bits after the end of a row are ignored.
    last = packed[:, -1] & np.uint8((1 << (shape[-1] - 8 * (width - 1))) - 1)
    marked = int(np.bitwise_count(packed[:, :-1]).sum(dtype=np.int64) + np.bitwise_count(last).sum(dtype=np.int64))
    if marked != stored.numel():
        raise LoadError(
            f"the bitmask of {name} has {marked:,} bits set, but the file stores {stored.numel():,} values. It is "
            "damaged, or was combined from two files. Download or compress it again."
        )
