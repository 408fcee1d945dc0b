"""Read dtypes, sizes and layouts of tensors in an exported program, and check them before making tensors."""

from __future__ import annotations

import math
from typing import Any

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.pt2.parse import as_int
from effsparse_cli.formats.torch.pt2.sizes import Sizes

DTYPES = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32,
    8: torch.float64, 9: torch.complex32, 10: torch.complex64, 11: torch.complex128, 12: torch.bool,
    13: torch.bfloat16, 28: torch.uint16, 29: torch.float8_e4m3fn, 30: torch.float8_e5m2, 31: torch.float8_e4m3fnuz,
    32: torch.float8_e5m2fnuz, 33: torch.float8_e8m0fnu, 34: torch.uint32, 35: torch.uint64,
}  # fmt: skip
"""By the numbers of torch._export.serde.schema.ScalarType."""
STRIDED = 7
LAYOUTS = {STRIDED: torch.strided}
MEMORY_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
MAX_ELEMENTS, MAX_RANK = 1 << 33, 64
MAX_REPEATED = 1 << 20
"""Elements that a stored tensor may have if it repeats its memory."""


def read_layout(meta: Any, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return sizes, strides and offset."""
    if as_int(meta["layout"]) != STRIDED:
        raise LoadError("the program has a sparse tensor, which is not supported in .pt2 files. Export it dense.")
    shape, strides = (tuple(sizes.size(n) for n in meta[key]) for key in ("sizes", "strides"))
    offset = sizes.size(meta["storage_offset"])
    if len(shape) != len(strides) or len(shape) > MAX_RANK or min((*shape, *strides, offset), default=0) < 0:
        raise ValueError("the shape of a tensor is invalid")
    if math.prod(max(1, n) for n in shape) > MAX_ELEMENTS:
        raise LoadError(f"the program has a value of shape {'x'.join(map(str, shape))}, which is too large.")
    return shape, strides, offset


def make_meta(meta: Any, sizes: Sizes) -> torch.Tensor:
    """Return a meta tensor."""
    shape, strides, _ = read_layout(meta, sizes)
    span = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) if all(shape) else 0
    if span > MAX_ELEMENTS:
        raise ValueError("the strides of a tensor are invalid")
    return torch.empty_strided(shape, strides, dtype=DTYPES[as_int(meta["dtype"])], device="meta")


def make_view(memory: torch.Tensor, meta: Any) -> torch.Tensor:
    """Return a tensor as a view of a record, after checking that it is inside."""
    shape, strides, offset = read_layout(meta, Sizes())
    dtype = DTYPES[as_int(meta["dtype"])]
    count, rest = divmod(len(memory), dtype.itemsize)
    if not math.prod(shape):
        return torch.empty(shape, dtype=dtype)
    last = offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    if rest or last >= count:
        raise ValueError("a tensor is not inside its record")
    if math.prod(shape) > max(count, MAX_REPEATED):
        raise ValueError("a tensor is larger than its record")
    return memory.view(dtype).as_strided(shape, strides, offset)
