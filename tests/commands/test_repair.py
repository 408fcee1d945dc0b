"""`effsparse repair` on real files: the same function with nothing dead left in it, inputs untouched, outputs whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file
from torch import nn

from effsparse_cli.formats.torch.arch.built_in import BUILT_IN
from tests.commands.conftest import SAMPLES, Run
from tests.folding.trained import like_trained, results
from tests.formats.onnx.exported import export


def document(effsparse: Run, *arguments: object) -> dict[str, Any]:
    outcome = effsparse(*arguments, "--format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    found: dict[str, Any] = json.loads(outcome.out)
    return found


@pytest.fixture
def pruned(tmp_path: Path) -> Path:
    """A network with dead channels and constants, as a module and as ONNX."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 20), nn.Sigmoid(),
        nn.Linear(20, 4, bias=False),
    )  # fmt: skip
    like_trained(model, 0.04)
    with torch.no_grad():
        model.get_parameter("4.weight")[0] = 0
        model.get_parameter("6.weight")[:, 0] = 1
    torch.save(model, tmp_path / "model.pt")
    export(model, torch.zeros(1, 3, 8, 8), tmp_path / "model.onnx", "script")
    return tmp_path


def test_module(effsparse: Run, pruned: Path) -> None:
    source, target = pruned / "model.pt", pruned / "out.pt"
    before = source.read_bytes()
    shape = ["--input-shape", "1,3,8,8"]
    done = document(effsparse, "repair", source, *shape, "-o", target)
    assert done["removed"] > 0 < done["folded"]
    assert done["before"]["active"] == done["after"]["active"] == done["after"]["kept"]
    assert done["added"] == ["6.bias"]
    assert 0 <= done["difference"] <= 1e-5 * done["largest_output"]
    report = document(effsparse, "report", target, *shape)
    assert report["totals"]["kept"] == report["totals"]["active"] == done["after"]["active"]
    old, new = (torch.load(file, weights_only=False) for file in (source, target))
    for a, b in zip(*(results(model, (torch.zeros(2, 3, 8, 8),), {}, 1) for model in (old, new)), strict=True):
        torch.testing.assert_close(a, b)
    assert source.read_bytes() == before


def test_onnx_in_place(effsparse: Run, pruned: Path) -> None:
    done = document(effsparse, "repair", pruned / "model.onnx", "--in-place")
    assert done["written"] == str(pruned / "model.onnx")
    report = document(effsparse, "report", pruned / "model.onnx")
    assert report["totals"]["kept"] == report["totals"]["active"] == done["before"]["active"]
    assert sorted(file.name for file in pruned.iterdir()) == ["model.onnx", "model.pt"]


@pytest.mark.parametrize("name", ["resnet_small.pt2", "transformer_tiny.pt2", "lstm.pt2"])
def test_exported_programs(effsparse: Run, tmp_path: Path, name: str) -> None:
    done = document(effsparse, "repair", name, "-o", tmp_path / name)
    report = document(effsparse, "report", tmp_path / name)
    assert report["totals"]["kept"] == done["after"]["kept"] < done["before"]["kept"]
    assert report["totals"]["kept"] - report["totals"]["active"] == sum(each["connections"] for each in done["left"])
    old, new = (torch.export.load(file).module() for file in (SAMPLES / name, tmp_path / name))
    dice = torch.Generator().manual_seed(0)
    example = torch.export.load(SAMPLES / name).example_inputs[0][0]
    drawn = torch.randn(example.shape, generator=dice) if example.is_floating_point() else example + 3
    torch.testing.assert_close(old(drawn), new(drawn))


def test_what_is_said(effsparse: Run) -> None:
    outcome = effsparse("repair", "lenet5_igq.pt")
    assert outcome.code == 0
    text = " ".join(outcome.out.split())
    assert "470 of 61,770 connections active" in text
    assert "Nothing written" in text
    assert "148 inactive connections removed, 59 of them bias carriers, whose constants are now in biases" in text
    assert "max output difference" in text
    assert "for inputs of 1x3x32x32" in text
    outcome = effsparse("repair", "depthwise.pt2")
    assert "depthwise keeps 5 inactive connections: their constant is not the same at all positions" in " ".join(
        outcome.out.split()
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-o", "x.pt", "--in-place"], "not both"),
        (["-o", "x.onnx"], "must have the format of"),
        (["--reconnect", "--budget-neutral"], "use only one of"),
        (["--target", "0.9", "--compression", "10"], "use only one of them"),
        (["--lsq", "igq"], "are for --target"),
        (["--masks-only"], "are for --target"),
        (["--target", "0.9", "--method", "snip"], "unknown; choices: magnitude, random"),
        (["-o", "lenet300_uniform99.pt"], "never overwritten"),
    ],
)
def test_mistakes(effsparse: Run, arguments: list[str], expected: str) -> None:
    outcome = effsparse("repair", "lenet300_uniform99.pt", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.message


def test_a_module_among_other_things(effsparse: Run, pruned: Path) -> None:
    """Only the module is written, with a note. Overwriting its file would lose the other contents."""
    file, shape = pruned / "training.pt", ["--input-shape", "1,3,8,8"]
    torch.save({"model": torch.load(pruned / "model.pt", weights_only=False), "epoch": 3}, file)
    before = file.read_bytes()
    for way in ([], ["--target", "0.996"]):
        refused = effsparse("repair", file, *shape, *way, "--in-place")
        assert (refused.code, refused.out) == (2, "")
        assert "contains more than its module" in refused.message
        assert file.read_bytes() == before
    done = document(effsparse, "repair", file, *shape, "-o", pruned / "out.pt")
    assert any("only the module is written" in note for note in done["notes"])
    assert isinstance(torch.load(pruned / "out.pt", weights_only=False), nn.Sequential)


def test_masks_that_are_given_are_applied_first(effsparse: Run, pruned: Path) -> None:
    weight = torch.load(pruned / "model.pt", weights_only=False)[4].weight
    mask = (weight != 0).numpy()
    mask[:10] = False
    np.savez(pruned / "masks.npz", **{"4": mask})
    shape = ["--input-shape", "1,3,8,8"]
    document(effsparse, "repair", pruned / "model.pt", *shape, "--masks", pruned / "masks.npz", "-o", pruned / "o.pt")
    model = torch.load(pruned / "o.pt", weights_only=False)
    assert not model[4].weight[:10].any()
    report = document(effsparse, "report", pruned / "o.pt", *shape)
    assert report["totals"]["kept"] == report["totals"]["active"]


def test_a_target_is_met_with_dense_weights(effsparse: Run, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 10))
    torch.save(model, tmp_path / "dense.pt")
    options = ["--method", "random", "--direct", "--target", "0.97", "-o", tmp_path / "thin.pt"]
    assert effsparse("prune", tmp_path / "dense.pt", *options).code == 0
    source, target = tmp_path / "thin.pt", tmp_path / "out.pt"
    refused = effsparse("repair", source, "--target", "0.9", "-o", target)
    assert (refused.code, refused.out) == (2, "")
    assert "have no value" in refused.message
    assert not target.exists()
    dense = tmp_path / "dense.pt"
    over = effsparse("repair", source, "--target", "0.9", "--dense", dense, "-o", dense)
    assert (over.code, over.out) == (2, "")
    assert "never overwritten" in over.message
    done = document(effsparse, "repair", source, "--target", "0.9", "--dense", dense, "-o", target)
    assert done["revived"] > 0
    report = document(effsparse, "report", target)
    assert report["totals"]["active"] == report["totals"]["kept"] == done["after"]["active"] >= 90
    new = torch.load(target, weights_only=False)
    assert all(bool(((new[i].weight == 0) | (new[i].weight == model[i].weight)).all()) for i in (0, 2))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_files_of_tensors(effsparse: Run, tmp_path: Path, suffix: str) -> None:
    """Only what changed is new in them: weights and biases of the built-in model, and not the epoch."""
    dice = torch.Generator().manual_seed(0)
    state = {}
    for i, shape in enumerate([(300, 784), (100, 300), (10, 100)], 1):
        state[f"fc{i}.weight"] = torch.randn(shape, generator=dice) * (torch.rand(shape, generator=dice) < 0.005 * i)
        state[f"fc{i}.bias"] = torch.rand(shape[0], generator=dice)
    source, target = tmp_path / f"model{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".pt":
        torch.save({"state_dict": state, "epoch": 3}, source)
    else:
        save_file(state, source)
    done = document(effsparse, "repair", source, "--arch", "lenet-300-100", "-o", target)
    assert done["folded"] > 0
    new = torch.load(target) if suffix == ".pt" else load_torch(target)
    if suffix == ".pt":
        assert new["epoch"] == 3
        new = new["state_dict"]
    x = torch.randn(4, 784, generator=dice)
    torch.testing.assert_close(lenet(new, x), lenet(state, x))
    assert sum(int((new[f"fc{i}.weight"] != 0).sum()) for i in (1, 2, 3)) == done["after"]["active"]


def lenet(state: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    for i in (1, 2, 3):
        x = (torch.relu(x) if i > 1 else x) @ state[f"fc{i}.weight"].T + state[f"fc{i}.bias"]
    return x


def test_budget_neutral(effsparse: Run, tmp_path: Path) -> None:
    target = tmp_path / "masks.safetensors"
    done = document(effsparse, "repair", "lenet300_uniform99.pt", "--budget-neutral", "--masks-only", "-o", target)
    assert done["before"]["active"] < 300
    assert done["after"]["active"] == done["after"]["kept"] == 2662
    assert sum(int(mask.sum()) for mask in load_file(target).values()) == 2662


@pytest.mark.parametrize("suffix", [".pt", ".onnx"])
def test_when_writing_fails_nothing_is_there(
    effsparse: Run, pruned: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    before = {file.name: file.read_bytes() for file in pruned.iterdir()}
    monkeypatch.setattr(Path, "replace", fail)
    for where in (["-o", pruned / f"out{suffix}"], ["--in-place"]):
        outcome = effsparse("repair", pruned / f"model{suffix}", "--input-shape", "1,3,8,8", *where)
        assert (outcome.code, outcome.out) == (2, "")
        assert {file.name: file.read_bytes() for file in pruned.iterdir()} == before


def test_weights_of_a_type_that_the_model_cannot_use(effsparse: Run, tmp_path: Path) -> None:
    model = BUILT_IN["lenet-300-100"].make()
    whole = {name: tensor.to(torch.int32) for name, tensor in model.state_dict().items()}
    save_file(whole, tmp_path / "model.safetensors")
    out = tmp_path / "out.safetensors"
    outcome = effsparse("repair", tmp_path / "model.safetensors", "--arch", "lenet-300-100", "-o", out)
    assert outcome.code == 3, outcome.err
    assert not out.exists()
