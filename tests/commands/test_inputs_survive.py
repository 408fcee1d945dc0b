"""No output of a run overwrites a file that the run has read, under whatever name. Odd files are refused at once."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from tests.checks.models import chain, write_mlp
from tests.commands.conftest import Run
from tests.commands.folders import write_bert


@pytest.fixture
def run(effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return effsparse


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def with_external_data(folder: Path) -> None:
    model = onnx.load(write_mlp(folder / "plain.onnx", chain()))
    onnx.save_model(model, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)


def with_masks(folder: Path) -> None:
    write_mlp(folder / "m.onnx", chain())
    np.savez(folder / "masks.npz", fc1=np.eye(4, dtype=bool))


def with_baseline(folder: Path) -> None:
    write_mlp(folder / "m.onnx", chain())
    (folder / "base.json").write_text('{"schema_version": 1, "models": {}}')
    (folder / "effsparse.toml").write_text("[check]\nmin-effective = 0.1\n")
    (folder / "config.json").write_text('{"sparsity": 0.5}')
    (folder / "README.md").write_text("A model\n")


def with_data(folder: Path) -> None:
    torch.save(nn.Sequential(nn.Linear(4, 3)), folder / "m.pt")
    np.savez(folder / "data.npz", x=np.ones((2, 4), np.float32), y=np.zeros(2, np.int64))
    torch.save(nn.Sequential(nn.Linear(4, 3)), folder / "dense.pt")


def with_folder(folder: Path) -> None:
    write_bert(folder / "bert", shards=2)


CASES: list[tuple[Callable[[Path], None], list[str], str]] = [
    (with_external_data, ["report", "m.onnx"], "m.data"),
    (with_external_data, ["annotate", "m.onnx"], "m.data"),
    (with_external_data, ["diff", "m.onnx", "plain.onnx"], "m.data"),
    (with_external_data, ["check", "m.onnx"], "m.data"),
    (with_external_data, ["check", "m.onnx", "plain.onnx", "-j", "2"], "m.data"),
    (with_external_data, ["quotas", "m.onnx", "--target", "0.5"], "m.data"),
    (with_external_data, ["curve", "m.onnx", "--points", "2"], "m.data"),
    (with_masks, ["report", "m.onnx", "--masks", "masks.npz"], "masks.npz"),
    (with_masks, ["diff", "m.onnx", "m.onnx", "--masks", "masks.npz"], "masks.npz"),
    (with_masks, ["prune", "m.onnx", "--target", "0.8", "--masks", "masks.npz", "--masks-only"], "masks.npz"),
    (with_baseline, ["check", "m.onnx", "--baseline", "base.json"], "base.json"),
    (with_baseline, ["check", "m.onnx"], "effsparse.toml"),
    (with_baseline, ["check", "m.onnx"], "config.json"),
    (with_baseline, ["check", "m.onnx"], "README.md"),
    (with_data, ["prune", "m.pt", "--target", "0.5", "--method", "snip", "--data", "data.npz"], "data.npz"),
    (with_data, ["quotas", "m.pt", "--target", "0.5", "--lsq", "from:snip", "--data", "data.npz"], "data.npz"),
    (with_data, ["repair", "m.pt", "--target", "0.5", "--dense", "dense.pt"], "dense.pt"),
    (with_folder, ["report", "bert"], "bert/config.json"),
    (with_folder, ["report", "bert"], "bert/model.safetensors.index.json"),
    (with_folder, ["report", "bert"], "bert/model-00002-of-00002.safetensors"),
]


@pytest.mark.parametrize(
    ("make", "command", "victim"), CASES, ids=[f"{command[0]} over {victim}" for _, command, victim in CASES]
)
def test_what_was_read_stays(
    run: Run, tmp_path: Path, make: Callable[[Path], None], command: list[str], victim: str
) -> None:
    make(tmp_path)
    before = contents(tmp_path)
    refused = run(*command, "-o", victim)
    assert (refused.code, refused.out) == (2, "")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("alias", ["hard link", "symbolic link", "other spelling"])
def test_by_identity_and_not_by_name(run: Run, tmp_path: Path, alias: str) -> None:
    with_external_data(tmp_path)
    match alias:
        case "hard link":
            os.link(tmp_path / "m.data", tmp_path / "out")
        case "symbolic link":
            (tmp_path / "out").symlink_to("m.data")
    target = "./deep/../m.data" if alias == "other spelling" else "out"
    (tmp_path / "deep").mkdir()
    before = contents(tmp_path)
    refused = run("report", "m.onnx", "-o", target)
    assert refused.code == 2
    assert "never overwritten" in refused.message
    assert contents(tmp_path) == before


def test_a_refused_output_leaves_the_others_unwritten(run: Run, tmp_path: Path) -> None:
    with_external_data(tmp_path)
    assert run("report", "m.onnx", "--active-masks", "active.npz", "-o", "m.data").code == 2
    assert not (tmp_path / "active.npz").exists()


def test_data_that_nothing_uses_is_protected_too(run: Run, tmp_path: Path) -> None:
    with_external_data(tmp_path)
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    extra = model.graph.initializer.add()
    extra.CopyFrom(model.graph.initializer[0])
    extra.name = "nobody.weight"
    for entry in extra.external_data:
        entry.value = {"location": "extra.data", "offset": "0"}.get(entry.key, entry.value)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "extra.data").write_bytes(bytes(64))
    assert run("report", "m.onnx").code == 0
    assert run("report", "m.onnx", "-o", "extra.data").code == 2


@pytest.mark.parametrize(
    "command",
    [
        ["report", "m.onnx", "--active-masks", "x.npz", "-o", "./x.npz"],
        ["quotas", "m.onnx", "--target", "0.5", "--plot", "x.svg", "-o", "x.svg"],
        ["check", "m.onnx", "--write-baseline", "x.json", "-o", "x.json"],
    ],
)
def test_two_outputs_are_two_files(run: Run, tmp_path: Path, command: list[str]) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    refused = run(*command)
    assert refused.code == 2
    assert "use different files" in refused.message
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_in_place_still_replaces_the_model(run: Run, tmp_path: Path) -> None:
    model = write_mlp(tmp_path / "m.onnx", chain())
    before = model.read_bytes()
    assert run("prune", "m.onnx", "--target", "0.9", "--in-place").code == 0
    assert model.read_bytes() != before


def test_a_baseline_is_updated_but_not_the_one_compared_with(run: Run, tmp_path: Path) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    write_mlp(tmp_path / "n.onnx", chain())
    assert run("check", "m.onnx", "--write-baseline", "base.json").code == 0
    assert run("check", "n.onnx", "--write-baseline", "base.json").code == 0
    assert set(json.loads((tmp_path / "base.json").read_text())["models"]) == {"m.onnx", "n.onnx"}
    before = contents(tmp_path)
    assert run("check", "n.onnx", "--baseline", "base.json", "--write-baseline", "base.json").code == 2
    assert contents(tmp_path) == before
    (tmp_path / "effsparse.toml").write_text('[check]\nbaseline = "base.json"\n')
    write_mlp(tmp_path / "m.onnx", {"fc1": np.ones((4, 4), np.float32)})
    assert run("check", "m.onnx").code == 1
    assert run("check", "m.onnx", "--write-baseline", "base.json").code == 0, "accepted as it is now"
    assert run("check", "m.onnx").code == 0


SPECIAL = ["pipe", "socket", "/dev/zero", "folder"]
OPTIONS = [
    (["report"], 3),
    (["check"], 3),
    (["prune", "--target", "0.5"], 3),
    (["diff", "m.onnx"], 3),
    (["report", "m.onnx", "--masks"], 3),
    (["check", "m.onnx", "--config"], 2),
    (["check", "m.onnx", "--baseline"], 2),
    (["prune", "m.pt", "--target", "0.5", "--method", "snip", "--data"], 2),
]


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize(("command", "code"), OPTIONS, ids=[" ".join(command[-1:]) for command, _ in OPTIONS])
def test_pipes_devices_sockets_and_folders(
    run: Run, tmp_path: Path, command: list[str], code: int, special: str
) -> None:
    write_mlp(tmp_path / "m.onnx", chain())
    with_data(tmp_path)
    name = special
    with socket.socket(socket.AF_UNIX) as listener:
        if special == "pipe":
            os.mkfifo(name := "pipe.npz")
        elif special == "socket":
            listener.bind(name := "socket.npz")
        elif special == "folder":
            (tmp_path / (name := "folder.npz")).mkdir()
        refused = run(*command, name)
    assert refused.code == code
    assert name in refused.err + refused.out


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors"])
def test_pipes_within_a_folder(run: Run, tmp_path: Path, name: str) -> None:
    with_folder(tmp_path)
    (tmp_path / "bert" / name).unlink()
    os.mkfifo(tmp_path / "bert" / name)
    refused = run("report", "bert")
    assert refused.code == 3
    assert name in refused.message


def test_pipe_as_external_data(run: Run, tmp_path: Path) -> None:
    with_external_data(tmp_path)
    (tmp_path / "m.data").unlink()
    os.mkfifo(tmp_path / "m.data")
    refused = run("report", "m.onnx")
    assert refused.code == 3
    assert "a named pipe" in refused.message
