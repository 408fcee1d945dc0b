"""Pickled batches of CIFAR, read as data: numpy arrays are rebuilt from their bytes, and nothing is called."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.unpickle import unpickle
from effsparse_cli.study.data.files import reading

ARRAYS = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")


def read_batch(path: Path, key: str, pixels: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images, one row of `pixels` bytes each, and the labels at `key`."""
    with reading(path), open(path, "rb") as file:
        content = unpickle(file, str(path)).content
    found = {_text(name): value for name, value in content.items()} if isinstance(content, dict) else {}
    if "data" not in found or key not in found:
        raise LoadError(f"{path} is not a batch of this data set: it has no data and {key}.")
    images, labels = _array(found["data"]), found[key]
    if images is None or images.ndim != 2 or images.shape[1] != pixels:
        raise LoadError(f"{path} is damaged: its data are not rows of {pixels:,} bytes. Download it again.")
    if not isinstance(labels, list) or not all(type(label) is int and abs(label) < 1 << 31 for label in labels):
        raise LoadError(f"{path} is damaged: its labels are not whole numbers. Download it again.")
    if len(labels) != len(images):
        raise LoadError(f"{path} is damaged: {len(images):,} images, but {len(labels):,} labels. Download it again.")
    return images, np.array(labels, dtype=np.int64)


def _text(name: Any) -> Any:
    return name.decode("latin-1") if isinstance(name, bytes) else name


def _array(value: Any) -> NDArray[np.uint8] | None:
    """Rebuild an array of bytes from (version, shape, dtype, Fortran order, content); None if it is something else."""
    if not isinstance(value, Inert) or value.of not in ARRAYS:
        return None
    match value.state:
        case (int(), tuple() as shape, Inert() as dtype, order, bytes() | str() as raw):
            pass
        case _:
            return None
    if dtype.of != "numpy.dtype" or not dtype.args or _text(dtype.args[0]) != "u1":
        return None
    # The strings of Python 2 are bytes.
    content = raw.encode("latin-1") if isinstance(raw, str) else raw
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != len(content):
        return None
    return np.frombuffer(content, np.uint8).reshape(shape, order="F" if order else "C")
