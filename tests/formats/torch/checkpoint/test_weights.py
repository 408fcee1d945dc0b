"""Find the weights in checkpoints of training scripts, and describe files without weights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.torch_save import open_pickled, read_tensors


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))


STATE = network().state_dict()
NAMES = list(STATE)
OPTIMIZER = torch.optim.Adam(network().parameters())


def stepped() -> dict[str, Any]:
    """Return an optimizer state after one step, with tensors in it."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 6)).sum().backward()
    optimizer.step()
    return optimizer.state_dict()


def read(tmp_path: Path, content: object, key: str = "") -> Checkpoint:
    torch.save(content, tmp_path / "m.pt")
    return read_tensors(open_pickled(tmp_path / "m.pt"), key)


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "module", "net", "params", "whatever"])
def test_wrapped_state_dict(tmp_path: Path, key: str) -> None:
    content = {"epoch": 3, "loss": torch.tensor(0.5), "optimizer": stepped(), key: STATE}
    found = read(tmp_path, content)
    assert list(found.tensors) == NAMES
    assert found.notes == (f"weights from {key}",)


def lightning() -> dict[str, Any]:
    """Return a checkpoint as Lightning's Trainer writes it."""
    return {
        "epoch": 1,
        "global_step": 10,
        "pytorch-lightning_version": "2.4.0",
        "state_dict": {f"model.{name}": tensor for name, tensor in STATE.items()},
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 1}}}},
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_k_models": {}, "best_model_score": torch.tensor(1.0)}},
        "optimizer_states": [stepped()],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": {"lr": 1e-3},
    }


def test_lightning_checkpoints(tmp_path: Path) -> None:
    assert list(read(tmp_path, lightning()).tensors) == [f"model.{name}" for name in NAMES]


def test_averaged_copies_come_last(tmp_path: Path) -> None:
    content = {"ema": dict(STATE), "swa_model": dict(STATE), "model": {n: t + 1 for n, t in STATE.items()}}
    found = read(tmp_path, content)
    assert torch.equal(found.tensors["0.weight"], STATE["0.weight"] + 1)
    assert found.notes == (
        "weights from model; the file has others, which --key selects, for example --key ema: ema, swa_model",
    )
    assert torch.equal(read(tmp_path, content, "ema").tensors["0.weight"], STATE["0.weight"])


def test_key(tmp_path: Path) -> None:
    content = {"a": {"b.c": {"d": STATE}}, "state_dict": {f"model.{name}": tensor for name, tensor in STATE.items()}}
    assert list(read(tmp_path, content, "a.b.c.d").tensors) == NAMES
    assert list(read(tmp_path, content, "a").tensors) == NAMES
    assert list(read(tmp_path, content, "state_dict.model").tensors) == NAMES
    with pytest.raises(UsageError, match=r"has no key emma\. Its keys are a, state_dict"):
        read(tmp_path, content, "emma")
    with pytest.raises(UsageError, match=r"has no key nope"):
        read(tmp_path, content, "a.nope")


def test_modules_in_checkpoints(tmp_path: Path) -> None:
    module = network()
    found = read(tmp_path, {"model": module, "optimizer": stepped(), "updates": 3})
    assert list(found.tensors) == NAMES
    prune.random_unstructured(module[0], "weight", 0.5)  # type: ignore[no-untyped-call, index]
    found = read(tmp_path, {"model": module})
    assert list(found.tensors) == list(module.state_dict())


def test_modules_have_the_names_of_their_state_dict(tmp_path: Path) -> None:
    layer = nn.Linear(4, 4)
    module = nn.ModuleDict({"a": layer, "b": layer, "rnn": nn.LSTM(4, 3), "bn": nn.BatchNorm1d(4)})
    module.register_buffer("hidden", torch.ones(2), persistent=False)
    found = read(tmp_path, module)
    assert set(found.tensors) == set(module.state_dict())
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in module.state_dict().items())


class Closed(nn.Module):
    """A module with custom state."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 2))

    def __getstate__(self) -> list[int]:
        return [1, 2]

    def __setstate__(self, state: list[int]) -> None:
        raise AssertionError("never called")


def test_modules_that_only_their_own_code_can_read(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"an object of tests\..*\.Closed, which only its own code can read"):
        read(tmp_path, Closed())
    with pytest.raises(LoadError, match=r"1 is a tests\..*\.Closed, whose weights cannot be read"):
        read(tmp_path, nn.Sequential(nn.Linear(2, 2), Closed()))


def cyclic() -> dict[str, Any]:
    content: dict[str, Any] = {"a": {}}
    content["a"]["back"] = content
    return content


def deep(depth: int) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for _ in range(depth):
        content = {"in": content}
    return content


def shared() -> dict[str, Any]:
    """Return 40 levels that each refer twice to the next: walking every path would never end."""
    content: dict[str, Any] = {"leaf": 1}
    for _ in range(40):
        content = {"left": content, "right": content}
    return content


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (3, "contains a value of type int and no"),
        (None, "contains a value of type NoneType"),
        ({}, "contains an empty dictionary"),
        ([torch.ones(2)], "contains a list of 1 values"),
        (torch.ones(3, 3), "contains a single unnamed tensor"),
        ({0: torch.ones(2, 2), 1: torch.ones(2)}, "tensors under keys of type int"),
        ({(1, 2): torch.ones(2, 2)}, "tensors under keys of type tuple"),
        ({"epoch": 3, "lr": 0.1}, r"a dictionary without tensors \(epoch, lr\)"),
        (OPTIMIZER.state_dict(), "an optimizer state"),
        (stepped(), "an optimizer state"),
        ({"optimizer": stepped(), "epoch": 2}, "an optimizer state"),
        ({"weight": torch.ones(2).numpy()}, "NumPy arrays"),
        (cyclic(), "a dictionary without tensors"),
        (deep(300), "a dictionary without tensors"),
        (shared(), "a dictionary without tensors"),
    ],
)
def test_files_without_weights(tmp_path: Path, content: object, expected: str) -> None:
    with pytest.raises(LoadError, match=expected) as caught:
        read(tmp_path, content)
    assert re.search(r"no named weights", str(caught.value))
