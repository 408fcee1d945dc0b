"""What an exported program says of tensors: types, sizes and layout, checked before anything is made of them."""

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
LARGEST, RANK = 1 << 33, 64
"""Elements of one value, and its dimensions."""
REPEATED = 1 << 20
"""Elements up to which a stored tensor may be larger than its memory, by repeating it."""


def layout_of(meta: Any, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes, strides and offset."""
    if as_int(meta["layout"]) != STRIDED:
        raise LoadError("the program has a sparse tensor, which is not supported in .pt2 files. Export it dense.")
    shape, strides = (tuple(sizes.size(n) for n in meta[key]) for key in ("sizes", "strides"))
    offset = sizes.size(meta["storage_offset"])
    if len(shape) != len(strides) or len(shape) > RANK or min((*shape, *strides, offset), default=0) < 0:
        raise ValueError("the shape of a tensor makes no sense")
    if math.prod(max(1, n) for n in shape) > LARGEST:
        raise LoadError(f"the program has a value of shape {'x'.join(map(str, shape))}, which is too large")
    return shape, strides, offset


def blank(meta: Any, sizes: Sizes) -> torch.Tensor:
    """A tensor without memory."""
    shape, strides, _ = layout_of(meta, sizes)
    span = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) if all(shape) else 0
    if span > LARGEST:
        raise ValueError("the strides of a tensor make no sense")
    return torch.empty_strided(shape, strides, dtype=DTYPES[as_int(meta["dtype"])], device="meta")


def stored(memory: torch.Tensor, meta: Any) -> torch.Tensor:
    """A tensor in the memory of a record, all of it inside."""
    shape, strides, offset = layout_of(meta, Sizes())
    dtype = DTYPES[as_int(meta["dtype"])]
    count, rest = divmod(len(memory), dtype.itemsize)
    if not math.prod(shape):
        return torch.empty(shape, dtype=dtype)
    last = offset + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    if rest or last >= count:
        raise ValueError("a tensor reaches beyond the record that holds it")
    if math.prod(shape) > max(count, REPEATED):
        raise ValueError("a stored tensor is larger than the record that holds it")
    return memory.view(dtype).as_strided(shape, strides, offset)
