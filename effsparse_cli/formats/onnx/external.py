"""External data of ONNX tensors: location, offset and length in, a memory-mapped array of bytes out. A model may
name only files in its own folder and below: a model file is data, and must not read the user's other files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, SparseTensorProto, TensorProto

from effsparse_cli import files
from effsparse_cli.errors import LoadError
from effsparse_cli.formats.onnx.tensors.keys import tensors


@dataclass(frozen=True)
class Section:
    """Where the bytes of a tensor start."""

    file: Path
    offset: int


def is_external(tensor: TensorProto) -> bool:
    return tensor.HasField("data_location") and tensor.data_location == TensorProto.EXTERNAL


def location(tensor: TensorProto) -> str:
    """Return the file that an external tensor names."""
    return next((str(entry.value) for entry in tensor.external_data if entry.key == "location"), "")


def data_files(model: ModelProto, path: Path) -> list[Path]:
    """Return the files with a model's external data, without the model file itself."""
    names = dict.fromkeys(location(tensor) for tensor in external_tensors(model))
    return [path.parent / name for name in names if name and name != path.name]


def external_tensors(model: ModelProto) -> list[TensorProto]:
    return [tensor for tensor in dense_tensors(model) if is_external(tensor)]


def dense_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield all stored tensors, with the values and indices of sparse ones."""
    for _, stored, _ in tensors(model):
        yield from (stored.values, stored.indices) if isinstance(stored, SparseTensorProto) else (stored,)


def note_data_files(model: ModelProto, path: Path) -> None:
    """Record the files that hold a model's external data, needed or not, so that no output overwrites them."""
    for tensor in dense_tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location" and entry.value:
                files.note_belonging(path.parent / entry.value)


def section(tensor: TensorProto, model: Path, expected: int) -> Section:
    """Return where the bytes of `tensor` are, after checking that the file contains them."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    where = f"{model}: the external data of tensor {tensor.name!r}"
    location = entries.get("location", "")
    file = _allowed(location, model, where)
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries["length"]) if entries.get("length") else None
    except ValueError:
        raise LoadError(f"{where} has an offset or length that is not a number. The model file is damaged.") from None
    if not os.path.isfile(files.note_read(file)):
        raise LoadError(f"{where} should be in {location!r}, which does not exist. Put it next to the model file.")
    available = file.stat().st_size - offset
    if offset < 0 or (length is not None and length < 0) or available < expected or (length or expected) > available:
        raise LoadError(
            f"{where} needs {expected} bytes at offset {offset} of {location!r}, which has only {max(available, 0)}. "
            "The data file is truncated or belongs to another model."
        )
    if length is not None and length != expected:
        raise LoadError(f"{where} has a stated length of {length} bytes, but its shape and type need {expected}.")
    return Section(file, offset)


def read_bytes(part: Section, expected: int) -> NDArray[np.uint8]:
    if expected == 0:
        return np.empty(0, np.uint8)
    before = part.offset % ALLOCATIONGRANULARITY
    with part.file.open("rb") as file:
        mapped = mmap(file.fileno(), before + expected, access=ACCESS_READ, offset=part.offset - before)
    return np.frombuffer(mapped, np.uint8, expected, before)


def _allowed(location: str, model: Path, where: str) -> Path:
    """Return the path of the file if it resolves to a file in the model's folder. In the cache of the Hugging Face
    hub both files are links into one folder of blobs, so the folder of the model's real file counts too."""
    if location == model.name:
        return model
    named = Path(location)
    if not location or named.is_absolute() or ".." in named.parts or "\\" in location:
        raise LoadError(
            f"{where} points to {location!r}. Only files in the model's own folder are read, so this is refused."
        )
    file = model.parent / named
    real = file.resolve()
    folders = (model.parent.resolve(), model.resolve().parent)
    if not any(real.is_relative_to(folder) for folder in folders):
        raise LoadError(f"{where} is in {location!r}, a link to a file outside the model's folder, so this is refused.")
    return file
