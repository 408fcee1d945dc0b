"""Read and write ONNX files without holding their large tensors: they are mapped when they are needed, and copied from
file to file. Parsing them would copy each twice, which takes longer than the whole analysis."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import BinaryIO

from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto

from effsparse_cli.formats.onnx.external import is_external, location, read_bytes, section
from effsparse_cli.formats.onnx.tensors.read import packed_size

LARGE = 1 << 16
GRAPH, INITIALIZER, RAW_DATA = 7 << 3 | 2, 5 << 3 | 2, 9 << 3 | 2
"""Keys of fields of a model, a graph and a tensor: the field number and the wire type of a length-delimited field."""

Change = Callable[[mmap, int, int], bytes | None]
Part = bytes | Callable[[], memoryview]
"""Bytes of a message, or a function that reads them when they are written."""


def outline(path: Path) -> ModelProto | None:
    """Return the model with large tensors turned into external data in the file itself.

    None if the file is small or malformed: parsing all of it reports what is wrong.
    """
    if os.name == "nt" or "\\" in path.name:
        return None  # Windows cannot replace a mapped file; external data cannot name such a file
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


def is_outlined(tensor: TensorProto, path: Path) -> bool:
    """Return whether the tensor's data is in the model file itself."""
    return is_external(tensor) and location(tensor) == path.name


def fill_in(model: ModelProto, path: Path) -> ModelProto:
    """Return a copy of an outlined model that holds all data of its file."""
    whole = ModelProto()
    whole.CopyFrom(model)
    for tensor in whole.graph.initializer:
        if is_outlined(tensor, path):
            data = read_outlined(tensor, path)
            _forget_location(tensor)
            tensor.raw_data = bytes(data)
    return whole


def read_outlined(tensor: TensorProto, path: Path) -> memoryview:
    size = packed_size(tensor)
    return read_bytes(section(tensor, path, size), size).data


def write_whole(model: ModelProto, path: Path, new: Mapping[str, Callable[[], memoryview]], file: BinaryIO) -> None:
    """Write an outlined model as one file, with the data of its source at `path`, or new data by tensor name."""
    initializers: list[list[Part]] = []
    sizes: list[int] = []
    for tensor in model.graph.initializer:
        if is_outlined(tensor, path):
            data = new.get(tensor.name) or partial(read_outlined, tensor, path)
            parts, size = _with_data(tensor, packed_size(tensor), data)
        else:
            text = tensor.SerializeToString()
            parts, size = [text], len(text)
        initializers.append([_varint(INITIALIZER) + _varint(size), *parts])
        sizes.append(len(initializers[-1][0]) + size)  # type: ignore[arg-type]
    rest = ModelProto()
    rest.CopyFrom(model)
    del rest.graph.initializer[:]
    graph_head, graph_tail = _split(rest.graph, INITIALIZER)
    rest.ClearField("graph")
    head, tail = _split(rest, GRAPH)
    size = len(graph_head) + sum(sizes) + len(graph_tail)
    _write_parts(file, [head, _varint(GRAPH), _varint(size), graph_head])
    for parts in initializers:
        _write_parts(file, parts)
    _write_parts(file, [graph_tail, tail])


def _with_data(tensor: TensorProto, size: int, data: Callable[[], memoryview]) -> tuple[list[Part], int]:
    """Return a tensor's message with its data in place, and its size."""
    bare = TensorProto()
    bare.CopyFrom(tensor)
    _forget_location(bare)
    head, tail = _split(bare, RAW_DATA)
    head += _varint(RAW_DATA) + _varint(size)
    return [head, data, tail], len(head) + size + len(tail)


def _forget_location(tensor: TensorProto) -> None:
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")


def _split(message: Message, key: int) -> tuple[bytes, bytes]:
    """Return the serialized message before and after the place of a field that it does not have."""
    text: bytes = message.SerializeToString()
    place = next((start for found, start, _, _ in _fields(text, 0, len(text)) if found >> 3 > key >> 3), len(text))
    return text[:place], text[place:]


def _write_parts(file: BinaryIO, parts: list[Part]) -> None:
    for part in parts:
        file.write(part() if callable(part) else part)


def _changed(wanted: int, change: Change, data: mmap, start: int, end: int) -> bytes:
    """Return a message with fields of one key changed."""
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


def _fields(data: mmap | bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the key of each field, where it starts, and where its content starts and stops."""
    while start < end:
        key, at = _read_varint(data, start)
        wire_type = key & 7
        if wire_type == 2:
            size, at = _read_varint(data, at)
            stop = at + size
        elif wire_type == 0:
            stop = _read_varint(data, at)[1]
        else:
            stop = at + {1: 8, 5: 4}[wire_type]
        if stop > end:
            raise ValueError("a field ends after its message")
        yield key, start, at, stop
        start = stop


def _read_varint(data: mmap | bytes, at: int) -> tuple[int, int]:
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
