"""Read mask files, detected from their content: .safetensors, .npz and torch files. Nothing in them is executed."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli import files
from effsparse_cli.errors import EffsparseError, LoadError, first_line
from effsparse_cli.formats.zip_members import read_members
from effsparse_cli.graph.primitives import Bools, Shape

Array = NDArray[Any]
MAX_DEPTH = 4
"""Nested dictionaries that are searched for masks."""
NUMBERS = "biuf"
"""Kinds of NumPy dtypes that a mask may have: booleans, integers and floats."""


@dataclass(frozen=True)
class Mask:
    """A mask in a file; `read` returns its values as they are stored."""

    shape: Shape
    read: Callable[[], Array]


def read_masks(path: Path) -> dict[str, Mask]:
    """Return the masks of a file by name."""
    if not os.path.isfile(files.note_read(path, option="--masks:")):
        raise LoadError(f"--masks: {path} does not exist.")
    try:
        with path.open("rb") as file:
            head = file.read(9)
        if head[8:] == b"{":
            masks = _read_safetensors(path)
        elif head.startswith(b"PK") and _is_npz(path):
            masks = _read_npz(path)
        elif head.startswith((b"PK", b"\x80")):
            masks = _read_torch(path)
        else:
            raise LoadError(f"--masks: {path} is not a .safetensors, .npz or torch file.")
    except EffsparseError:
        raise
    except Exception as error:
        raise LoadError(f"--masks: {path} cannot be read: {first_line(error)}") from error
    if not masks:
        raise LoadError(f"--masks: {path} contains no masks.")
    return masks


def read_kept(mask: Mask, name: str) -> Bools:
    """Return a mask of zeros and ones of any dtype as booleans."""
    try:
        values = mask.read()
    except Exception as error:
        raise LoadError(f'--masks: mask "{name}" cannot be read: {first_line(error)}') from error
    if values.dtype.kind not in NUMBERS:
        raise LoadError(f'--masks: mask "{name}" has dtype {values.dtype}. Save it as booleans.')
    if values.dtype == bool:
        return values
    if not ((values == 0) | (values == 1)).all():
        what = "contains NaN" if values.dtype.kind == "f" and np.isnan(values).any() else "is not binary"
        raise LoadError(f'--masks: mask "{name}" {what}. A mask contains only zeros and ones.')
    return np.asarray(values == 1)


def _read_safetensors(path: Path) -> dict[str, Mask]:
    from safetensors import safe_open

    def read(name: str) -> Array:
        with safe_open(path, framework="np") as file:
            return np.asarray(file.get_tensor(name))

    with safe_open(path, framework="np") as file:
        masks = {}
        for name in list(file.keys()):
            stored = file.get_slice(name)
            lacking = str(stored.get_dtype()).startswith(("BF", "F8"))  # floats that NumPy lacks
            reader = partial(_read_by_torch, path, name) if lacking else partial(read, name)
            masks[name] = Mask(tuple(stored.get_shape()), reader)
    return masks


def _read_by_torch(path: Path, name: str) -> Array:
    from effsparse_cli.formats.torch.checkpoint.safetensors import read_safetensors
    from effsparse_cli.formats.torch.tensors import numbers

    return numbers(read_safetensors(path)[name])


def _is_npz(path: Path) -> bool:
    try:
        return any(member.name.endswith(".npy") for member in read_members(path))
    except LoadError as error:
        raise LoadError(f"--masks: {error}") from error


def _read_npz(path: Path) -> dict[str, Mask]:
    """Read the headers only: an array is decompressed when it is needed, after its shape was compared."""

    def read(member: str) -> Array:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    masks = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.endswith(".npy"):
                with archive.open(member) as file:
                    version = np.lib.format.read_magic(file)
                    reader = np.lib.format.read_array_header_1_0
                    shape, _, dtype = (reader if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
                    room = archive.getinfo(member).file_size - file.tell()
                _check_array(member, tuple(shape), dtype, room)
                masks[member.removesuffix(".npy")] = Mask(tuple(shape), partial(read, member))
    return masks


def _check_array(member: str, shape: Shape, dtype: np.dtype[Any], room: int) -> None:
    """Refuse an array before memory is allocated for it: a header of a few bytes can declare any size."""
    if dtype.hasobject:
        raise ValueError(f"{member} is a pickle, and pickles are not executed")
    if dtype.kind not in NUMBERS:
        raise ValueError(f"{member} has dtype {str(dtype)[:40]}; save it as booleans")
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize > room:
        raise ValueError(f"{member} is damaged: it is smaller than the shape in its header")


def _read_torch(path: Path) -> dict[str, Mask]:
    """Read {name: mask}, possibly in other dictionaries, or the state_dict of a sparsifier."""
    from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled
    from effsparse_cli.formats.torch.tensors import numbers

    try:
        opened = open_pickled(path)
        found = {name: opened.tensors.read(described) for name, described in _find_masks(opened.content, (), MAX_DEPTH)}
    except LoadError as error:
        raise type(error)(f"--masks: {error}") from error
    return {name: Mask(tuple(tensor.shape), partial(numbers, tensor)) for name, tensor in found.items()}


def _find_masks(content: Any, names: tuple[str, ...], depth: int) -> Iterator[tuple[str, Any]]:
    """Yield masks by name. Names of outer dictionaries are dropped, except that of {"fc.weight": {"mask": ...}}."""
    from effsparse_cli.formats.torch.checkpoint.pickle.tensors import is_tensor
    from effsparse_cli.formats.torch.checkpoint.weights import items_of

    for key, value in items_of(content):
        if is_tensor(value):
            inside = names[-1:] if str(key) == "mask" else ()
            yield ".".join((*inside, str(key))), value
        elif depth:
            yield from _find_masks(value, (*names, str(key)), depth - 1)
