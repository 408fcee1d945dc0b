"""MNIST as its authors publish it: four IDX files, plain or compressed with gzip."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from effsparse_cli.errors import LoadError
from effsparse_cli.study.data.dataset import Data, Source, Split, Stored, make_data
from effsparse_cli.study.data.files import find_file, reading

NAMES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
BYTES = 0x08
"""The code of unsigned bytes, the only type that these files have."""
MOST_BYTES = 1 << 33


def read(source: Source) -> Data:
    return make_data(_read_split(source, "train"), _read_split(source, "test"), source)


def _read_split(source: Source, split: str) -> Split:
    images, labels = (_find(source.path, name) for name in NAMES[split])
    return Split(
        Stored(read_idx(images, 3).unsqueeze(1)),
        read_idx(labels, 1).long(),
    )


def _find(folder: str, name: str) -> Path:
    spellings = (name, name.replace("-idx", ".idx"))
    return find_file(folder, [f"{each}{end}" for each in spellings for end in ("", ".gz")])


def read_idx(path: Path, rank: int) -> torch.Tensor:
    """Read an IDX file of bytes: two zeros, the type, the rank, the sizes (big-endian), and the numbers."""
    with reading(path), open(path, "rb") as plain:
        compressed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        if compressed:
            with gzip.open(plain, "rb") as file:
                return _read_idx(file, path, rank)  # type: ignore[arg-type]
        return _read_idx(plain, path, rank)


def _read_idx(file: BinaryIO, path: Path, rank: int) -> torch.Tensor:
    header = file.read(4 + 4 * rank)
    if len(header) < 4 + 4 * rank or header[:4] != bytes((0, 0, BYTES, rank)):
        raise LoadError(f"{path} is not an IDX file of {rank}-dimensional bytes. Download it again.")
    sizes = struct.unpack(f">{rank}I", header[4:])
    expected = math.prod(sizes)
    if expected > MOST_BYTES:
        raise LoadError(f"{path} states sizes {'x'.join(map(str, sizes))}, which are too large for MNIST.")
    # In parts: a truncated file may state any size.
    content = bytearray()
    while len(content) <= expected and (part := file.read(min(1 << 24, expected + 1 - len(content)))):
        content += part
    if len(content) != expected:
        more = "more" if len(content) > expected else f"only {len(content):,}"
        raise LoadError(f"{path} is damaged: it states {expected:,} bytes and has {more}. Download it again.")
    return torch.from_numpy(np.frombuffer(bytes(content), np.uint8).reshape(sizes).copy())
