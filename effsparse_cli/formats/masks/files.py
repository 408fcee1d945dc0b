"""A file of masks by name -> what reads each of them: .safetensors, .npz and torch files, told apart by their content.
Shapes are known before anything is read, and nothing in the file is run."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli import files
from effsparse_cli.errors import EffsparseError, LoadError
from effsparse_cli.formats.zip_members import read_members
from effsparse_cli.graph.primitives import Bools, Shape

Array = NDArray[Any]
NUMBERS = "biuf"
"""Kinds of NumPy types that a mask may have: booleans, integers and floats."""


@dataclass(frozen=True)
class Mask:
    """`read` gives it as it is stored."""

    shape: Shape
    read: Callable[[], Array]


def read_masks(path: Path) -> dict[str, Mask]:
    if not os.path.isfile(files.note_read(path, option="--masks:")):
        raise LoadError(f"--masks: there is no file {path}")
    try:
        with path.open("rb") as file:
            head = file.read(9)
        if head[8:] == b"{":
            masks = _safetensors(path)
        elif head.startswith(b"PK") and _is_npz(path):
            masks = _npz(path)
        elif head.startswith((b"PK", b"\x80")):
            from effsparse_cli.formats.masks.torch_files import read_torch_masks

            masks = {name: Mask(*mask) for name, mask in read_torch_masks(path).items()}
        else:
            raise LoadError(f"--masks: {path} is no .safetensors, .npz or torch file")
    except EffsparseError:
        raise
    except Exception as error:
        raise LoadError(f"--masks: {path} cannot be read: {_reason(error)}") from error
    if not masks:
        raise LoadError(f"--masks: {path} holds no masks")
    return masks


def as_kept(mask: Mask, name: str) -> Bools:
    """Zeros and ones of any type, as booleans; everything else is no mask."""
    try:
        values = mask.read()
    except Exception as error:
        raise LoadError(f"--masks: the mask {name} cannot be read: {_reason(error)}") from error
    if values.dtype.kind not in NUMBERS:
        raise LoadError(f"--masks: the mask {name} is made of {values.dtype}: save it as booleans")
    if values.dtype == bool:
        return values
    if not ((values == 0) | (values == 1)).all():
        odd = "holds NaN" if values.dtype.kind == "f" and np.isnan(values).any() else "has other values too"
        raise LoadError(f"--masks: the mask {name} is not made of zeros and ones: it {odd}")
    return np.asarray(values == 1)


def _safetensors(path: Path) -> dict[str, Mask]:
    from safetensors import safe_open

    def read(name: str) -> Array:
        with safe_open(path, framework="np") as file:
            return np.asarray(file.get_tensor(name))

    with safe_open(path, framework="np") as file:
        slices = [(name, file.get_slice(name)) for name in list(file.keys())]
        return {
            name: Mask(tuple(s.get_shape()), partial(_narrow, path, name) if _is_narrow(s) else partial(read, name))
            for name, s in slices
        }


def _is_narrow(stored: Any) -> bool:
    """A float that numpy has no type for: bfloat16 or one of eight bits."""
    return str(stored.get_dtype()).startswith(("BF", "F8"))


def _narrow(path: Path, name: str) -> Array:
    from effsparse_cli.formats.torch.checkpoint.safetensors import read_safetensors
    from effsparse_cli.formats.torch.values import numbers

    return numbers(read_safetensors(path)[name])


def _is_npz(path: Path) -> bool:
    try:
        return any(member.name.endswith(".npy") for member in read_members(path))
    except LoadError as error:
        raise LoadError(f"--masks: {error}") from error


def _npz(path: Path) -> dict[str, Mask]:
    """Headers alone: an array is inflated when it is asked for, and only if its shape is that of a layer."""

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
    """Refuse an array before memory is taken for it: a header of a few bytes can ask for any amount."""
    if dtype.hasobject:
        raise ValueError(f"{member} is a pickle, and pickles are not run")
    if dtype.kind not in NUMBERS:
        raise ValueError(f"{member} is made of {str(dtype)[:40]}: save it as booleans")
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize > room:
        raise ValueError(f"{member} is damaged: it is smaller than the shape in its header says")


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
