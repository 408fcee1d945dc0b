"""A safetensors file becomes named tensors that are views of its memory map: the header is checked against the file
first, so that nothing outside of it is ever read, and nothing is copied."""

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
from effsparse_cli.formats.torch.checkpoint.storage.mapped import map_file

DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16, "I16": torch.int16,
    "U32": torch.uint32, "I32": torch.int32, "U64": torch.uint64, "I64": torch.int64,
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip
LARGEST_HEADER = 100_000_000
"""The format's own limit."""
FETCH = "Fetch or write the file again."


@dataclass(frozen=True)
class Entry:
    """Where in the file one tensor lies."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    entries = read_header(path)
    content = map_file(path)
    return {name: _view(content, entry) for name, entry in entries.items()}


def read_header(path: Path) -> dict[str, Entry]:
    """By name, in the order of the header."""
    header, start = _header(path)
    header.pop("__metadata__", None)
    size = path.stat().st_size - start
    entries = {name: _entry(path, name, fields, start) for name, fields in header.items()}
    at = start
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != at:
            what = "overlaps another tensor" if entry.start < at else "leaves a gap before it"
            raise LoadError(f"{path} is damaged: {name} {what}. {FETCH}")
        at = entry.end
    if at - start != size:
        what = "is cut short" if at - start > size else "has bytes behind its last tensor"
        raise LoadError(f"{path} {what}: its tensors take {at - start:,} bytes and it has {size:,}. {FETCH}")
    return entries


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """What the header says, and where the tensors begin."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LARGEST_HEADER):
            raise LoadError(
                f"{path} is no whole safetensors file: it announces a header of {length:,} bytes and has "
                f"{max(size - 8, 0):,} after that. {FETCH}"
            )
        text = file.read(length)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path} has a damaged safetensors header ({str(error)[:200]}). {FETCH}") from error
    if not isinstance(header, dict):
        raise LoadError(f"{path} has a safetensors header that is no table of tensors. {FETCH}")
    return header, 8 + length


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands in it twice")
    return found


def _entry(path: Path, name: str, fields: object, start: int) -> Entry:
    if not isinstance(fields, Mapping):
        raise LoadError(f"{path} is damaged: its header says of {name!r} neither type nor place. {FETCH}")
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise LoadError(f"{path}: {name} is of the type {dtype!r}, which is not known here ({', '.join(DTYPES)} are)")
    # A shape with a zero in it has no bytes that would bound its other sizes.
    if not _sizes(shape) or math.prod(max(n, 1) for n in shape) >= 1 << 63:
        raise LoadError(f"{path} is damaged: {name} has the shape {shape!r}. {FETCH}")
    if not _sizes(offsets) or len(offsets) != 2:
        raise LoadError(f"{path} is damaged: {name} lies at {offsets!r}, not between two places. {FETCH}")
    wanted = math.prod(shape) * DTYPES[dtype].itemsize
    if offsets[1] - offsets[0] != wanted:
        raise LoadError(
            f"{path} is damaged: {name} ({dtype} {'x'.join(map(str, shape)) or 'number'}) needs {wanted:,} bytes and "
            f"has {offsets[1] - offsets[0]:,}. {FETCH}"
        )
    return Entry(DTYPES[dtype], tuple(shape), start + offsets[0], start + offsets[1])


def _sizes(numbers: object) -> TypeGuard[list[int]]:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in numbers)


def _view(content: mmap.mmap, entry: Entry) -> torch.Tensor:
    if entry.start == entry.end:
        return torch.empty(entry.shape, dtype=entry.dtype)
    if entry.start % entry.dtype.itemsize:
        # Some writers do not align their tensors, and not every processor reads those.
        return torch.frombuffer(bytearray(content[entry.start : entry.end]), dtype=entry.dtype).reshape(entry.shape)
    flat = torch.frombuffer(content, dtype=entry.dtype, count=math.prod(entry.shape), offset=entry.start)
    return flat.reshape(entry.shape)
