"""MNIST files: plain and compressed, and files that are damaged or lie about their size."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from effsparse_cli.errors import EffsparseError, LoadError
from effsparse_cli.study.data import read_data


def idx(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


IMAGES, LABELS = np.arange(6 * 20, dtype=np.uint8).reshape(6, 4, 5), np.array([0, 1, 2, 0, 1, 2], np.uint8)
FILES = {
    "train-images-idx3-ubyte": idx(IMAGES),
    "train-labels-idx1-ubyte": idx(LABELS),
    "t10k-images-idx3-ubyte": idx(IMAGES[:2]),
    "t10k-labels-idx1-ubyte": idx(LABELS[:2]),
}


def write(folder: Path) -> dict[str, str]:
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return {"kind": "mnist", "path": str(folder)}


def test_plain_and_compressed(tmp_path: Path) -> None:
    plain = read_data(write(tmp_path))
    assert torch.equal(plain.train.examples.read(torch.arange(6)), torch.from_numpy(IMAGES)[:, None])
    assert plain.train.labels.tolist() == LABELS.tolist()
    assert (len(plain.test), plain.classes, plain.shape) == (2, 3, (1, 4, 5))
    for name in FILES:
        dotted = (tmp_path / name).rename(tmp_path / f"{name.replace('-idx', '.idx')}.gz")
        dotted.write_bytes(gzip.compress(dotted.read_bytes()))
    packed = read_data({"kind": "mnist", "path": str(tmp_path)})
    assert torch.equal(packed.train.examples.read(torch.arange(6)), plain.train.examples.read(torch.arange(6)))


def test_numbers_of_examples(tmp_path: Path) -> None:
    some = read_data({**write(tmp_path), "train": 3, "test": 1})
    assert (len(some.train), len(some.test), some.classes) == (3, 1, 3)
    again = read_data({**write(tmp_path), "train": 3, "test": 1})
    assert torch.equal(some.train.examples.read(torch.arange(3)), again.train.examples.read(torch.arange(3)))


HOSTILE = {
    "not an IDX file": b"PK\x03\x04" + bytes(100),
    "states 120 bytes and has only 119": idx(IMAGES)[:-1],
    "states 120 bytes and has more": idx(IMAGES) + b"x",
    "too large": bytes((0, 0, 8, 3)) + struct.pack(">3I", 1 << 31, 1 << 31, 1 << 31),
    "states 8,000,000,000 bytes and has only 16": bytes((0, 0, 8, 3))
    + struct.pack(">3I", 8000, 1000, 1000)
    + bytes(16),
    "cannot be read": gzip.compress(idx(IMAGES))[:-12],
    "is not an IDX": b"",
}


@pytest.mark.parametrize("message", HOSTILE)
def test_damaged_files(tmp_path: Path, message: str) -> None:
    spec = write(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(HOSTILE[message])
    with pytest.raises(LoadError, match=message):
        read_data(spec)


def test_a_compressed_bomb_is_not_expanded(tmp_path: Path) -> None:
    spec = write(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(gzip.compress(idx(IMAGES) + bytes(1 << 26)))
    with pytest.raises(LoadError, match="has more"):
        read_data(spec)


def test_labels_and_images_must_match(tmp_path: Path) -> None:
    spec = write(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(LABELS[:5]))
    with pytest.raises(LoadError, match="6 training examples, but 5 labels"):
        read_data(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "mnist", "path": "absent"}, "the data folder absent does not exist"),
        ({"kind": "mnist", "path": __file__}, r"test_mnist\.py is not a folder"),
        ({"kind": "mnist", "path": "."}, "has no train-images-idx3-ubyte"),
        ({"kind": "mnist"}, "mnist needs a path"),
        ({"kind": "svhn", "path": "."}, "svhn"),
        ({"kind": "mnist", "path": ".", "train": 0}, "train is 0"),
        ({"kind": "mnist", "path": ".", "tset": 10}, "unknown setting 'tset'"),
    ],
)
def test_bad_descriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EffsparseError, match=message):
        read_data(spec)
