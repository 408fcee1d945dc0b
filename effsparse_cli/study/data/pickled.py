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
BUFFERS = ("numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer")
"""What numpy names to make an array: the first before protocol 5 of pickle, the second since."""


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
    raw = _bytes(name)
    return name if raw is None else raw.decode("latin-1")


def _array(value: Any) -> NDArray[np.uint8] | None:
    """Rebuild an array of bytes from what numpy pickles; None if it is something else."""
    if not isinstance(value, Inert):
        return None
    match value.of in ARRAYS, value.state, value.of in BUFFERS, value.args:
        case True, (int(), tuple() as shape, Inert() as dtype, order, raw), False, _:
            order = "F" if order else "C"
        case False, _, True, (raw, Inert() as dtype, tuple() as shape, ("C" | "F") as order):
            pass
        case _:
            return None
    content = _bytes(raw)
    if dtype.of != "numpy.dtype" or not dtype.args or _text(dtype.args[0]) != "u1" or content is None:
        return None
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != len(content):
        return None
    values = np.frombuffer(content, np.uint8)
    return values.reshape(shape) if order == "C" else values.reshape(shape[::-1]).T


def _bytes(raw: Any) -> bytes | None:
    """Return bytes as they are, from a string of Python 2, or as Python 3 writes them for Python 2."""
    match raw:
        case bytes() | bytearray():
            return bytes(raw)
        case str():
            return raw.encode("latin-1", errors="replace")
        case Inert(of="_codecs.encode", args=(str() as text, "latin1")):
            return text.encode("latin-1", errors="replace")
        case _:
            return None
