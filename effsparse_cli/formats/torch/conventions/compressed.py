"""The compressed-tensors library: the non-zero values of a weight and a bitmask of their positions.
`X.weight.{shape,compressed,bitmask,row_offsets}`, and `X.{shape,compressed,bitmask}` for 2:4, become X.weight."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.conventions.layouts import check_size
from effsparse_cli.formats.torch.conventions.tensors import FileTensors, ModelTensor, format_shape
from effsparse_cli.graph.primitives import Bools, Shape

BITMASK = ".bitmask"


def find(file: FileTensors) -> Iterator[ModelTensor]:
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
