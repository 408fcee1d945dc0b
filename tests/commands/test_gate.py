"""`effsparse check FOLDER` passes nothing that it did not look at: what looks like a model is checked, or named."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from effsparse_cli.checks.search import ModelFinder
from effsparse_cli.formats.discover import folder_weights, looks_like_model
from tests.checks.models import chain, write_mlp
from tests.commands.conftest import Outcome, Run
from tests.commands.folders import write_bert, write_llama


@pytest.fixture
def check(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        return effsparse("check", *arguments)

    return run


def states(outcome: Outcome) -> dict[str, str]:
    return {model["model"]: model["state"] for model in json.loads(outcome.out)["models"]}


def found(*named: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return [str(path) for path in ModelFinder(looks_like_model, folder_weights, exclude).find(named).models]


def save_module(file: Path) -> Path:
    model = nn.Sequential(nn.Linear(4, 4))
    torch.save(model, file)
    return file


def save_tensors(file: Path) -> Path:
    save_file({"fc.weight": torch.eye(4)}, file)
    return file


def test_a_mixed_folder(check: Run, tmp_path: Path) -> None:
    (tmp_path / "mix").mkdir()
    save_module(tmp_path / "mix" / "a.pt")
    save_tensors(tmp_path / "mix" / "b.safetensors")
    write_llama(tmp_path / "mix" / "llama")
    outcome = check("mix/", "--min-effective", "0.5", "-f", "json")
    assert outcome.code == 3
    assert states(outcome) == {"mix/a.pt": "fails", "mix/b.safetensors": "unmeasured", "mix/llama": "fails"}


def test_a_folder_that_is_a_model(check: Run, tmp_path: Path) -> None:
    write_bert(tmp_path / "bert", shards=2)
    outcome = check("bert/", "--claim", "0.9", "-f", "json")
    assert (outcome.code, states(outcome)) == (1, {"bert": "fails"})
    for named in ("bert", "bert/model-00001-of-00002.safetensors", "bert/*.safetensors", "."):
        assert found(named) == ["bert"]


def test_weights_that_arch_fits(check: Run, tmp_path: Path) -> None:
    save_file(nn.Linear(4, 3).state_dict(), tmp_path / "b.safetensors")
    arch = ["--arch", "torch.nn:Linear", "--arch-arg", "in_features=4", "--arch-arg", "out_features=3"]
    assert check(".", *arch, "--input-shape", "1,4").code == 0


def make_everything(folder: Path) -> None:
    """Models under all kinds of names, and other files next to them."""
    (folder / "deep" / "er").mkdir(parents=True)
    save_module(folder / "deep" / "er" / "weights.bin")
    save_module(folder / "renamed.dat")
    torch.save(nn.Linear(2, 2).state_dict(), folder / "old.backup", _use_new_zipfile_serialization=False)
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)), folder / "script")  # type: ignore[no-untyped-call]
    write_mlp(folder / "photo.jpg", chain())
    save_tensors(folder / "tensors.txt")
    (folder / "pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    (folder / "empty.pt").touch()
    (folder / "UPPER.PT").write_text("no model")
    (folder / "gone.ckpt").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.pth")


MODELS = ["UPPER.PT", "deep/er/weights.bin", "empty.pt", "gone.ckpt", "old.backup", "photo.jpg", "pipe.pth"]
MODELS += ["pointer.onnx", "renamed.dat", "script", "tensors.txt"]


def test_models_under_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_everything(tmp_path)
    assert found(".") == sorted(MODELS)
    assert found(".", exclude=("deep", "*.PT", "p*")) == [
        name for name in sorted(MODELS) if not name.startswith(("deep", "UPPER", "p"))
    ]


def test_what_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data of an ONNX model, masks, baselines, other people's pickles and archives, text, hidden files."""
    monkeypatch.chdir(tmp_path)
    model = onnx.load(write_mlp(tmp_path / "m.onnx", chain()))
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    save_file({"fc1": torch.ones(4, 4, dtype=torch.bool)}, tmp_path / "masks.safetensors")
    np.savez(tmp_path / "masks.npz", fc1=np.ones((4, 4)))
    (tmp_path / "base.json").write_text('{"schema_version": 1, "models": {}}')
    (tmp_path / "data.pkl").write_bytes(pickle.dumps({"a": 1}))
    shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path, "base.json")
    (tmp_path / "text.md").write_text("\x08words {")
    (tmp_path / "almost").write_bytes(b"12345678{}")
    (tmp_path / ".hidden").mkdir()
    save_module(tmp_path / ".hidden" / "m.pt")
    assert found(".") == ["m.onnx"]


def test_masks_of_this_run_are_no_models(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    torch.save({"fc1": torch.eye(4)}, tmp_path / "masks.pt")
    assert list(states(check(".", "--masks", "masks.pt", "-f", "json"))) == ["m.onnx"]
    (tmp_path / "effsparse.toml").write_text('[models."m.onnx"]\nmasks = "masks.pt"\n')
    assert list(states(check(".", "-f", "json"))) == ["m.onnx"]


def test_folders_in_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export below a model folder and weights in a second form are models of their own; a trainer's files are none,
    and folders that links lead to are searched once."""
    monkeypatch.chdir(tmp_path)
    bert = write_bert(tmp_path / "models" / "bert")
    (bert / "onnx").mkdir()
    write_mlp(bert / "onnx" / "model.onnx", chain())
    torch.save({}, bert / "pytorch_model.bin")
    torch.save({}, bert / "optimizer.pt")
    torch.save({}, bert / "training_args.bin")
    (bert / "trainer_state.json").write_text("{}")
    (tmp_path / "models" / "again").symlink_to(bert)
    (tmp_path / "models" / "loop").symlink_to(tmp_path)
    (tmp_path / "models" / "config.json").write_text("{}")
    (tmp_path / "store").mkdir()
    save_module(tmp_path / "store" / "m.pt")
    (tmp_path / "models" / "linked").symlink_to(tmp_path / "store")
    again = "models/again"
    assert found("models") == [again, f"{again}/onnx/model.onnx", f"{again}/pytorch_model.bin", "models/linked/m.pt"]
    assert found("models/bert/model.safetensors", "models/bert") == [
        "models/bert",
        "models/bert/onnx/model.onnx",
        "models/bert/pytorch_model.bin",
    ]


def test_the_cache_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots are links to blobs: the blobs are no models of their own."""
    monkeypatch.chdir(tmp_path)
    plain = write_bert(tmp_path / "plain", shards=2)
    snapshot = tmp_path / "hub" / "models--org--bert" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    blobs = snapshot.parents[1] / "blobs"
    blobs.mkdir()
    for number, file in enumerate(sorted(plain.iterdir())):
        shutil.copy(file, blobs / f"{number:064x}")
        (snapshot / file.name).symlink_to(f"../../blobs/{number:064x}")
    assert found("hub") == [str(snapshot.relative_to(tmp_path))]


@pytest.mark.skipif(sys.platform == "win32" or os.getuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "closed").mkdir(mode=0)
    outcome = check(".", "-f", "json")
    assert outcome.code == 3
    assert states(outcome)["closed"] == "unmeasured"


def test_exclude_in_the_project_file(check: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    save_tensors(tmp_path / "b.safetensors")
    assert check(".").code == 3
    assert check(".", "--exclude", "*.safetensors").code == 0
    (tmp_path / "effsparse.toml").write_text('[check]\npaths = ["."]\nexclude = ["b.*"]\n')
    assert check().code == 0


@pytest.mark.parametrize(
    "text",
    ["", "[]", "3", "null", '"x"', "{", "\x00", '{"model_type": 3}', '{"architectures": {}}', "[" * 100_000],
)
def test_odd_configs(check: Run, tmp_path: Path, text: str) -> None:
    """As the configuration of a folder, and next to a separate model."""
    save_tensors(tmp_path / "model.safetensors")
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "config.json").write_text(text)
    outcome = check(".", "-f", "json")
    assert outcome.code == 3
    assert "bug" not in outcome.out


@pytest.mark.parametrize(
    "value",
    [
        "x",
        3,
        [],
        {"sparsity": {}},
        {"sparsity": "1e999999999"},
        {"sparsity": 10**400},
        {"sparsity": float("inf")},
        {"sparsity_config": [1]},
        {"sparsity_config": {"sparsity_structure": "2:4", "targets": ["re:("]}},
    ],
)
def test_odd_claims(check: Run, tmp_path: Path, value: Any) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    (tmp_path / "config.json").write_text(json.dumps(value))
    assert check("m.onnx").code == 0
