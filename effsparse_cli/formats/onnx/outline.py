"""An ONNX file without its large tensors: a path in, a model out that names the file itself as their external data.

They are mapped when they are asked for. Parsed, they would be copied twice before anything looks at them, which takes
longer than all that is measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto

from effsparse_cli.formats.onnx.external import is_external
from effsparse_cli.formats.onnx.tensors.read import packed_size

LARGE = 1 << 16
GRAPH, INITIALIZER, RAW_DATA = 7 << 3 | 2, 5 << 3 | 2, 9 << 3 | 2
"""Keys of fields of a model, a graph and a tensor: their number, and that they have a length."""

Change = Callable[[mmap, int, int], bytes | None]


def outline(path: Path) -> ModelProto | None:
    """None for a file that is small, or is not what it should be: reading all of it says what is wrong."""
    if os.name == "nt" or "\\" in path.name:
        return None  # Windows replaces no file that is mapped; external data names no such file
    try:
        with open(path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            if not LARGE < len(data) < 1 << 31:
                return None
            tensor = partial(_outlined, path.name)
            graph = partial(_changed, INITIALIZER, tensor)
            model: ModelProto = ModelProto.FromString(_changed(GRAPH, graph, data, 0, len(data)))
            return model
    except (OSError, ValueError, KeyError, TypeError, IndexError, DecodeError):
        return None


def _changed(wanted: int, change: Change, data: mmap, start: int, end: int) -> bytes:
    """A message with fields of one key changed."""
    parts, done = [], start
    for key, field, at, stop in _fields(data, start, end):
        new = change(data, at, stop) if key == wanted else None
        if new is not None:
            parts += [data[done:field], _varint(key), _varint(len(new)), new]
            done = stop
    return b"".join([*parts, data[done:end]])


def _outlined(file: str, data: mmap, start: int, end: int) -> bytes | None:
    if end - start < LARGE:
        return None
    raw = [place for key, *place in _fields(data, start, end) if key == RAW_DATA]
    if len(raw) != 1:
        return None
    ((field, at, stop),) = raw
    tensor = TensorProto.FromString(data[start:field] + data[stop:end])
    if is_external(tensor) or tensor.data_type == TensorProto.STRING or packed_size(tensor) != stop - at:
        return None
    tensor.data_location = TensorProto.EXTERNAL
    for name, value in (("location", file), ("offset", at), ("length", stop - at)):
        tensor.external_data.add(key=name, value=str(value))
    text: bytes = tensor.SerializeToString()
    return text


def _fields(data: mmap, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Of a message: each field's key, where it starts, and where its content starts and stops."""
    while start < end:
        key, at = _read_varint(data, start)
        kind = key & 7
        if kind == 2:
            size, at = _read_varint(data, at)
            stop = at + size
        elif kind == 0:
            stop = _read_varint(data, at)[1]
        else:
            stop = at + {1: 8, 5: 4}[kind]
        if stop > end:
            raise ValueError("a field ends after its message")
        yield key, start, at, stop
        start = stop


def _read_varint(data: mmap, at: int) -> tuple[int, int]:
    value = 0
    for i in range(10):
        byte = data[at + i]
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value, at + i + 1
    raise ValueError("a number of more than 64 bits")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
