"""Arrays from .npz files and from the user's own code."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from effsparse_cli.errors import EffsparseError
from effsparse_cli.study.data import read_data

X, Y = np.arange(4 * 5 * 6 * 3, dtype=np.uint8).reshape(4, 5, 6, 3), np.array([0, 1, 0, 1])
ARRAYS: dict[str, Any] = {"x_train": X, "y_train": Y, "x_test": X[:2], "y_test": Y[:2]}


def read_npz(folder: Path, **arrays: Any) -> Any:
    np.savez(folder / "data.npz", **arrays)
    return read_data({"kind": "npz", "path": str(folder / "data.npz")})


def test_layouts(tmp_path: Path) -> None:
    last = read_npz(tmp_path, **ARRAYS)
    assert last.shape == (3, 5, 6)
    assert torch.equal(last.train.examples.read(torch.arange(4)), torch.from_numpy(X.transpose(0, 3, 1, 2).copy()))
    gray = read_npz(tmp_path, **{**ARRAYS, "x_train": X[..., 0], "x_test": X[:2, ..., 0]})
    assert gray.shape == (1, 5, 6)
    medical = dict(zip(("train_images", "train_labels", "test_images", "test_labels"), ARRAYS.values(), strict=True))
    assert read_npz(tmp_path, **{**medical, "train_labels": Y[:, None]}).train.labels.tolist() == Y.tolist()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x_test": X[:2, :4]}, "training examples have shape 3x5x6, test examples 3x4x6"),
        ({"y_train": Y[:3]}, "4 training examples, but 3 labels"),
        ({"y_train": Y.astype(float)}, "labels must be one class number"),
        ({"y_train": Y - 1}, "a training label is negative"),
        ({"y_test": Y[:2] + 5}, "test labels go up to 6, the training labels to 1"),
        ({"x_train": np.full((4, 5, 6), np.nan), "x_test": np.ones((2, 5, 6))}, "not finite"),
        ({"x_train": np.full((4, 5), 1e300), "x_test": np.ones((2, 5))}, "too large for 32 bits"),
        ({"x_train": X[:0], "y_train": Y[:0]}, "no training examples"),
        ({"x_train": np.array([object()] * 4)}, "cannot be read"),
        ({"y_train": np.array(list("abab"))}, r"data\.npz: the labels are not numbers: ValueError: <U1"),
        ({"x_train": np.zeros((4, 2), "M8[s]")}, r"the examples are not numbers: .* datetime64\[s\]"),
    ],
)
def test_bad_arrays(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(EffsparseError, match=message):
        read_npz(tmp_path, **(ARRAYS | changed))


@pytest.mark.parametrize("kind", [">f4", "<f8", "longdouble", "float16", ">i2", "uint16", "bool"])
def test_numbers_of_every_kind(tmp_path: Path, kind: str) -> None:
    x = np.arange(8).reshape(4, 2).astype(kind)
    data = read_npz(tmp_path, x_train=x, x_test=x, y_train=Y.astype(">u8"), y_test=Y)
    assert data.train.examples.read(torch.arange(4)).tolist() == x.tolist()
    assert data.train.labels.tolist() == Y.tolist()


def test_only_images_and_floats_are_standardized(tmp_path: Path) -> None:
    x, one = np.arange(8).reshape(4, 2), torch.ones(1, 2)
    for kind in (np.int64, np.float32, np.uint8):
        found = read_npz(tmp_path, **ARRAYS | {"x_train": x.astype(kind), "x_test": x[:2].astype(kind)})
        assert torch.equal(found.normalize(one), one) == (kind == np.int64)


class Augmented:
    """Draws examples when they are read."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return torch.rand(2) + np.random.rand(), i % 2


def augmented() -> tuple[Augmented, Augmented]:
    return Augmented(), Augmented()


def test_data_that_is_drawn_is_always_the_same() -> None:
    spec = {"kind": "code", "path": f"{__name__}:augmented"}
    first, second = (read_data(spec).train.examples.read(torch.arange(4)) for _ in range(2))
    assert torch.equal(first, second)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(EffsparseError, match="needs arrays x_train, y_train, x_test, y_test; it has a"):
        read_npz(tmp_path, a=X)
    whole = (tmp_path / "data.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:40] + bytes(200) + whole[240:])
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(ARRAYS))
    for path, message in (
        ("cut.npz", r"cut\.npz (cannot be read|needs arrays)"),
        ("pickle.npz", r"pickle\.npz is damaged, or not a \.npz file"),
        ("absent.npz", "does not exist"),
    ):
        with pytest.raises(EffsparseError, match=message):
            read_data({"kind": "npz", "path": str(tmp_path / path)})


def as_datasets() -> dict[str, Any]:
    x, y = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 0, 1])
    return {"train": TensorDataset(x, y), "test": (x, y)}


def failing() -> None:
    raise OSError("no network")


def three() -> tuple[int, int, int]:
    return 1, 2, 3


def test_own_code() -> None:
    data = read_data({"kind": "code", "path": f"{__name__}:as_datasets"})
    assert data.shape == (3,)
    assert torch.equal(data.train.examples.read(torch.arange(4)), data.test.examples.read(torch.arange(4)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("failing", "failed: OSError: no network"),
        ("three", "must return two data sets"),
        ("absent", "absent does not exist"),
    ],
)
def test_failing_code(name: str, message: str) -> None:
    with pytest.raises(EffsparseError, match=message):
        read_data({"kind": "code", "path": f"{__name__}:{name}"})
