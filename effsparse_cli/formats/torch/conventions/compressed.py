"""compressed-tensors: the numbers of a weight that are stored, one after another, and a bitmask of where they stand.
`X.weight.{shape,compressed,bitmask,row_offsets}`, and for 2:4 `X.{shape,compressed,bitmask}`, are X.weight."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.conventions.found import File, Found, times
from effsparse_cli.formats.torch.conventions.layouts import check_size
from effsparse_cli.graph.primitives import Bools, Shape

BITMASK = ".bitmask"


def find(file: File) -> Iterator[Found]:
    for bitmask in file.free:
        base = bitmask.removesuffix(BITMASK)
        parts = [f"{base}.{part}" for part in ("shape", "compressed", "row_offsets")]
        if base == bitmask or not all(part in file.tensors for part in parts[:2]):
            continue
        name = base if base.endswith("weight") else f"{base}.weight"
        shape, stored, bits = _shape(name, file.tensors[parts[0]]), file.tensors[parts[1]], file.tensors[bitmask]
        check_size(name, shape, "compressed to a bitmask")
        _check(name, shape, stored, bits)
        spent = (bitmask, *(part for part in parts if part in file.tensors))
        tensor = torch.empty(shape, dtype=stored.dtype, device="meta")
        yield Found(name, spent, tensor, values=partial(decompress, stored, bits, shape))


def decompress(stored: torch.Tensor, bitmask: torch.Tensor, shape: Shape) -> torch.Tensor:
    """The dense weight. Bits count from the low end of each byte, and each row begins with a byte of its own."""
    dense = torch.zeros(shape, dtype=stored.dtype)
    where = torch.from_numpy(unpack(bitmask, shape))
    if stored.element_size() == 1:
        # Eight-bit floats cannot be put to places, their bytes can.
        dense.view(torch.uint8)[where] = stored.reshape(-1).view(torch.uint8)
    else:
        dense[where] = stored.reshape(-1)
    return dense


def unpack(bitmask: torch.Tensor, shape: Shape) -> Bools:
    packed = bitmask.numpy().view(np.uint8).reshape(-1, bitmask.shape[-1])
    return np.unpackbits(packed, axis=-1, count=shape[-1], bitorder="little").view(np.bool_).reshape(shape)


def _shape(name: str, tensor: torch.Tensor) -> Shape:
    if tensor.is_floating_point() or tensor.is_complex() or not 1 <= tensor.numel() <= 8:
        raise LoadError(f"the compressed weight {name} has a shape that is no list of sizes")
    shape = tuple(int(n) for n in tensor.reshape(-1).tolist())
    if min(shape) < 1:
        raise LoadError(f"the compressed weight {name} says that it is {times(shape)}: sizes must be positive")
    return shape


def _check(name: str, shape: Shape, stored: torch.Tensor, bits: torch.Tensor) -> None:
    rows, width = math.prod(shape[:-1]), -(-shape[-1] // 8)
    if bits.dtype not in (torch.uint8, torch.int8) or bits.ndim < 1 or bits.numel() != rows * width:
        raise LoadError(
            f"the bitmask of {name} ({times(bits.shape)}, {bits.dtype}) does not belong to a weight of {times(shape)}, "
            f"which needs {rows}x{width} bytes"
        )
    if bits.shape[-1] != width:
        raise LoadError(f"the bitmask of {name} has rows of {bits.shape[-1]} bytes instead of {width}")
    packed = bits.numpy().view(np.uint8).reshape(rows, width)
    # Bits behind the end of a row mean nothing and are not read.
    last = packed[:, -1] & np.uint8((1 << (shape[-1] - 8 * (width - 1))) - 1)
    marked = int(np.bitwise_count(packed[:, :-1]).sum(dtype=np.int64) + np.bitwise_count(last).sum(dtype=np.int64))
    if marked != stored.numel():
        raise LoadError(
            f"the bitmask of {name} marks {marked:,} places, but {stored.numel():,} values are stored: the file is "
            "damaged, or was put together from two. Fetch or compress it again."
        )
