"""CIFAR-10 and CIFAR-100 in their binary and their Python version. Pickled batches are read as data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from effsparse_cli.errors import LoadError
from effsparse_cli.study.data.dataset import Data, Source, Split, Stored, make_data
from effsparse_cli.study.data.files import find_file, find_folder, reading
from effsparse_cli.study.data.pickled import read_batch

PIXELS = 3 * 32 * 32
BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))


def read_cifar10(source: Source) -> Data:
    folder = find_folder(source.path, ("cifar-10-batches-bin", "cifar-10-batches-py"))
    return make_data(_read(folder, BATCHES, 0, "labels", 10), _read(folder, ("test_batch",), 0, "labels", 10), source)


def read_cifar100(source: Source) -> Data:
    """The fine labels; the binary version has the coarse one before each."""
    folder = find_folder(source.path, ("cifar-100-binary", "cifar-100-python"))
    train, test = (_read(folder, (name,), 1, "fine_labels", 100) for name in ("train", "test"))
    return make_data(train, test, source)


def _read(folder: Path, names: Sequence[str], label_at: int, key: str, classes: int) -> Split:
    parts = []
    for name in names:
        path = find_file(folder, (f"{name}.bin", name))
        images, labels = _read_binary(path, label_at) if path.suffix == ".bin" else read_batch(path, key, PIXELS)
        if int(labels.max(initial=0)) >= classes or int(labels.min(initial=0)) < 0:
            raise LoadError(f"{path} is damaged: a label is not between 0 and {classes - 1}. Download it again.")
        parts.append((images, labels))
    images = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in parts])
    return Split(Stored(torch.from_numpy(images)), torch.from_numpy(labels.astype(np.int64)))


def _read_binary(path: Path, label_at: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A record is the labels, one byte each, and the red, green and blue pixels."""
    with reading(path):
        content = np.fromfile(path, np.uint8)
    record = label_at + 1 + PIXELS
    if not content.size or content.size % record:
        raise LoadError(f"{path} is damaged: {content.size:,} bytes are not records of {record}. Download it again.")
    rows = content.reshape(-1, record)
    return rows[:, label_at + 1 :], rows[:, label_at]
