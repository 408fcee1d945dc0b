"""The dtypes of the storages that a pickle refers to."""

from __future__ import annotations

from pathlib import Path

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.pickle.inert import StorageRef

DTYPES = {
    "FloatStorage": torch.float32, "DoubleStorage": torch.float64, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32,
    "ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8, "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64, "ComplexDoubleStorage": torch.complex128, "UntypedStorage": torch.uint8,
    "QInt8Storage": torch.qint8, "QUInt8Storage": torch.quint8, "QInt32Storage": torch.qint32,
}  # fmt: skip


def dtype_of(ref: StorageRef, path: Path) -> torch.dtype:
    if ref.type not in DTYPES:
        raise LoadError(f"{path} contains a tensor of type {ref.type!r}, which is not supported.")
    return DTYPES[ref.type]


def itemsize(ref: StorageRef, path: Path) -> int:
    if not 0 <= ref.numel < 1 << 62:
        raise LoadError(f"{path} is damaged: it contains a tensor of {ref.numel} elements.")
    return dtype_of(ref, path).itemsize
