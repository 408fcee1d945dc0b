"""Data and losses given on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from effsparse_cli.errors import UsageError
from effsparse_cli.pruning.batches import find_loss, read_batches

X, Y = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0])


@pytest.mark.parametrize(
    "content", [(X, Y), [X, Y], {"x": X, "y": Y}, {"labels": Y, "images": X}, {"first": X, "second": Y}]
)
def test_torch_files(tmp_path: Path, content: Any) -> None:
    torch.save(content, tmp_path / "batch.pt")
    ((x, y),) = read_batches(str(tmp_path / "batch.pt"))
    assert torch.equal(x, X)
    assert torch.equal(y, Y)


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "batch.npz", y=Y.numpy(), x=X.numpy())
    ((x, y),) = read_batches(str(tmp_path / "batch.npz"))
    assert torch.equal(x, X)
    assert torch.equal(y, Y)


def test_byte_order(tmp_path: Path) -> None:
    np.savez(tmp_path / "big.npz", x=np.ones((2, 3), ">f4"), y=np.zeros(2, ">i8"))
    ((x, y),) = read_batches(str(tmp_path / "big.npz"))
    assert (x.tolist(), y.tolist()) == ([[1.0] * 3] * 2, [0, 0])


def test_user_loaders_and_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_data.py").write_text(
        "import torch\n"
        "def loader():\n    yield torch.zeros(1), torch.ones(1)\n    yield {'x': torch.ones(2), 'y': torch.ones(2)}\n"
        "batches = [(torch.zeros(1), torch.ones(1))]\n"
        "empty = []\n"
        "def loss(output, target):\n    return output.sum()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [len(x) for x, _ in read_batches("my_data:loader")] == [1, 2]
    assert len(read_batches("my_data:batches")) == 1
    assert find_loss("my_data:loss")(torch.ones(3), None) == 3
    with pytest.raises(UsageError, match="no batches"):
        read_batches("my_data:empty")


INVALID = ("absent.npz", "nosuch_module:loader", "os:nosuch", "text.npz", "text.pt", "three.pt", "x")


@pytest.mark.parametrize("text", INVALID)
def test_invalid_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("text.npz", "text.pt"):
        (tmp_path / name).write_text("hello")
    torch.save((X, X, Y), tmp_path / "three.pt")
    with pytest.raises(UsageError, match="--data"):
        read_batches(text)
