"""CIFAR: binary and pickled batches give the same data, and pickles are never run."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from effsparse_cli.errors import LoadError, RefusedError
from effsparse_cli.study.data import read_data
from effsparse_cli.study.data.dataset import Data

ROWS = np.random.default_rng(0).integers(0, 256, (4, 3072)).astype(np.uint8)
TEN = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]


def write_binary(folder: Path, names: list[str], labels: list[list[int]]) -> None:
    records = np.concatenate([np.array(labels, np.uint8), ROWS], axis=1)
    for name in names:
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_pickled(folder: Path, names: list[str], content: Any, protocol: int = 2) -> None:
    for name in names:
        (folder / name).write_bytes(pickle.dumps(content, protocol=protocol))


def everything(data: Data) -> tuple[torch.Tensor, torch.Tensor]:
    return data.train.examples.read(torch.arange(len(data.train))), data.train.labels


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_cifar10_in_both_versions(tmp_path: Path, protocol: int) -> None:
    binary, python = tmp_path / "cifar-10-batches-bin", tmp_path / "python"
    binary.mkdir()
    python.mkdir()
    write_binary(binary, TEN, [[0], [3], [9], [1]])
    write_pickled(python, TEN, {b"data": ROWS, b"labels": [0, 3, 9, 1], b"filenames": ["a"] * 4}, protocol)
    found = [read_data({"kind": "cifar10", "path": str(path)}) for path in (tmp_path, python)]
    assert found[0].shape == (3, 32, 32)
    assert found[0].classes == 10
    for one, other in zip(*map(everything, found), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(everything(found[0])[0][:4], torch.from_numpy(ROWS.reshape(4, 3, 32, 32)))
    assert everything(found[0])[1].tolist() == [0, 3, 9, 1] * 5


def test_arrays_in_fortran_order(tmp_path: Path) -> None:
    write_pickled(tmp_path, TEN, {"data": np.asfortranarray(ROWS), "labels": [0, 1, 2, 3]})
    images, _ = everything(read_data({"kind": "cifar10", "path": str(tmp_path)}))
    assert torch.equal(images[:4], torch.from_numpy(ROWS.reshape(4, 3, 32, 32)))


def test_cifar100_uses_fine_labels(tmp_path: Path) -> None:
    write_binary(tmp_path, ["train", "test"], [[7, 0], [7, 3], [8, 99], [9, 1]])
    binary = read_data({"kind": "cifar100", "path": str(tmp_path)})
    for name in ("train", "test"):
        (tmp_path / f"{name}.bin").unlink()
    write_pickled(tmp_path, ["train", "test"], {"data": ROWS, "fine_labels": [0, 3, 99, 1], "coarse_labels": [7] * 4})
    python = read_data({"kind": "cifar100", "path": str(tmp_path)})
    assert binary.train.labels.tolist() == python.train.labels.tolist() == [0, 3, 99, 1]


def test_batches_of_python_2(tmp_path: Path) -> None:
    """Arrays whose bytes are a string of Python 2, as in the published files."""
    raw = pickle.dumps(ROWS.tobytes().decode("latin-1"), protocol=2)
    assert raw.startswith(b"\x80\x02X")
    text = b"T" + (3072 * 4).to_bytes(4, "little") + ROWS.tobytes()
    dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR(K\x01(K\x04M\x00\x0ct" + dtype
    content = b"\x80\x02}(U\x04data" + array + b"\x89" + text + b"tbU\x06labels](K\x00K\x01K\x02K\x03eu."
    for name in TEN:
        (tmp_path / name).write_bytes(content)
    images, labels = everything(read_data({"kind": "cifar10", "path": str(tmp_path)}))
    assert torch.equal(images[:4], torch.from_numpy(ROWS.reshape(4, 3, 32, 32)))
    assert labels[:4].tolist() == [0, 1, 2, 3]


class Harm:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, ("touch harmed",)


HOSTILE: dict[str, Any] = {
    "refers to posix.system": {"data": Harm(), "labels": [0]},
    "has no data and labels": {"data": ROWS},
    "not rows of 3,072 bytes": {"data": ROWS[:, :5], "labels": [0, 1, 2, 3]},
    "its data are not rows": {"data": ROWS.astype(np.float32), "labels": [0, 1, 2, 3]},
    "4 images, but 2 labels": {"data": ROWS, "labels": [0, 1]},
    "labels are not whole numbers": {"data": ROWS, "labels": ["0", "1", "2", "3"]},
    "a label is not between 0 and 9": {"data": ROWS, "labels": [0, 1, 2, 10]},
    "is not a batch": [1, 2, 3],
}


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_pickled(tmp_path, TEN, HOSTILE[message])
    kind = RefusedError if "posix" in message else LoadError
    with pytest.raises(kind, match=message):
        read_data({"kind": "cifar10", "path": str(tmp_path)})
    assert not (tmp_path / "harmed").exists()


def test_damaged_files(tmp_path: Path) -> None:
    write_binary(tmp_path, TEN, [[0]] * 4)
    (tmp_path / "data_batch_3.bin").write_bytes(bytes(3073 * 2 - 1))
    with pytest.raises(LoadError, match=r"data_batch_3\.bin is damaged: 6,145 bytes are not records of 3073"):
        read_data({"kind": "cifar10", "path": str(tmp_path)})
    (tmp_path / "data_batch_3.bin").unlink()
    with pytest.raises(LoadError, match=r"has no data_batch_3\.bin"):
        read_data({"kind": "cifar10", "path": str(tmp_path)})
    (tmp_path / "data_batch_3").write_bytes(pickle.dumps({"data": ROWS})[:-3])
    with pytest.raises(LoadError, match="damaged or truncated"):
        read_data({"kind": "cifar10", "path": str(tmp_path)})
