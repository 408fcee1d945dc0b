"""Read a safetensors file as named tensors, views of its memory map. The header is checked against the file first, so
nothing outside the file is read and nothing is copied."""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.storage import map_file

DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16, "I16": torch.int16,
    "U32": torch.uint32, "I32": torch.int32, "U64": torch.uint64, "I64": torch.int64,
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip
MAX_HEADER = 100_000_000
"""The limit of the format itself."""
ADVICE = "Download or save the file again."


@dataclass(frozen=True)
class TensorRecord:
    """The dtype, shape and byte range of one tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    records = read_header(path)
    content = map_file(path)
    return {name: _view(content, record) for name, record in records.items()}


def read_header(path: Path) -> dict[str, TensorRecord]:
    """Return the records by name, in the order of the header."""
    header, start = _read_json_header(path)
    header.pop("__metadata__", None)
    size = path.stat().st_size - start
    records = {name: _read_record(path, name, fields, start) for name, fields in header.items()}
    at = start
    for name, record in sorted(records.items(), key=lambda item: (item[1].start, item[1].end)):
        if record.start != at:
            what = "overlaps another tensor" if record.start < at else "leaves a gap before it"
            raise LoadError(f"{path} is damaged: {name} {what}. {ADVICE}")
        at = record.end
    if at - start != size:
        what = "is truncated" if at - start > size else "has bytes after its last tensor"
        raise LoadError(f"{path} {what}: its tensors need {at - start:,} bytes, and it has {size:,}. {ADVICE}")
    return records


def _read_json_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header and the offset of the first tensor."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER):
            raise LoadError(
                f"{path} is not a complete safetensors file: its header should have {length:,} bytes, and only "
                f"{max(size - 8, 0):,} follow. {ADVICE}"
            )
        text = file.read(length)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path} has a damaged safetensors header ({str(error)[:200]}). {ADVICE}") from error
    if not isinstance(header, dict):
        raise LoadError(f"{path} has a safetensors header that is not a JSON object. {ADVICE}")
    return header, 8 + length


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate name")
    return found


def _read_record(path: Path, name: str, fields: object, start: int) -> TensorRecord:
    if not isinstance(fields, Mapping):
        raise LoadError(f"{path} is damaged: its header has no dtype and offsets for {name!r}. {ADVICE}")
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise LoadError(
            f"{path}: tensor {name} has dtype {dtype!r}, which is not supported (supported: {', '.join(DTYPES)})."
        )
    # The sizes of an empty tensor are not bounded by its bytes.
    if not _are_sizes(shape) or math.prod(max(n, 1) for n in shape) >= 1 << 63:
        raise LoadError(f"{path} is damaged: {name} has the shape {shape!r}. {ADVICE}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise LoadError(f"{path} is damaged: {name} has the offsets {offsets!r}. {ADVICE}")
    wanted = math.prod(shape) * DTYPES[dtype].itemsize
    if offsets[1] - offsets[0] != wanted:
        raise LoadError(
            f"{path} is damaged: {name} ({dtype} {'x'.join(map(str, shape)) or 'scalar'}) needs {wanted:,} bytes and "
            f"has {offsets[1] - offsets[0]:,}. {ADVICE}"
        )
    return TensorRecord(DTYPES[dtype], tuple(shape), start + offsets[0], start + offsets[1])


def _are_sizes(numbers: object) -> TypeGuard[list[int]]:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in numbers)


def _view(content: mmap.mmap, record: TensorRecord) -> torch.Tensor:
    if record.start == record.end:
        return torch.empty(record.shape, dtype=record.dtype)
    if record.start % record.dtype.itemsize:
        # Some writers do not align tensors, and not every processor reads unaligned ones.
        return torch.frombuffer(bytearray(content[record.start : record.end]), dtype=record.dtype).reshape(record.shape)
    flat = torch.frombuffer(content, dtype=record.dtype, count=math.prod(record.shape), offset=record.start)
    return flat.reshape(record.shape)
