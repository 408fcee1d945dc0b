"""A kill at any moment leaves no output, the older one or a whole one, and the input as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.commands.conftest import SAMPLES
from tests.commands.killed import contents
from tests.folding.trained import like_trained
from tests.formats.onnx.exported import export
from tests.formats.torch.hf_models import thinned

SHAPE = ["--input-shape", "1,3,8,8"]
LENET = ["--arch", "lenet-300-100"]


def pruned() -> nn.Module:
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 20), nn.Sigmoid()]
    return like_trained(nn.Sequential(*layers, nn.Linear(20, 4)), 0.04)


def module(folder: Path) -> Path:
    torch.save(pruned(), folder / "model.pt")
    return folder / "model.pt"


def program(folder: Path) -> Path:
    torch.export.save(torch.export.export(pruned(), (torch.zeros(1, 3, 8, 8),)), folder / "model.pt2")
    return folder / "model.pt2"


def whole_onnx(folder: Path) -> Path:
    return export(pruned(), torch.zeros(1, 3, 8, 8), folder / "model.onnx", "script")


def split_onnx(folder: Path) -> Path:
    file = whole_onnx(folder)
    onnx.save_model(onnx.load(file), file, save_as_external_data=True, location="model.data", size_threshold=0)
    return file


def tensors(folder: Path) -> Path:
    save_file(torch.load(SAMPLES / "lenet300_uniform99.pt", weights_only=False).state_dict(), folder / "m.safetensors")
    return folder / "m.safetensors"


def folder_of_files(folder: Path) -> Path:
    thinned("gpt2").model.save_pretrained(folder / "model")
    return folder / "model"


CASES = {
    "repair, data beside": (split_onnx, "repair", [], "out.onnx"),
    "compact, onnx": (whole_onnx, "compact", [], "out.onnx"),
    "repair, onnx": (whole_onnx, "repair", [], "out.onnx"),
    "repair, module": (module, "repair", SHAPE, "out.pt"),
    "repair, program": (program, "repair", [], "out.pt2"),
    "repair, tensors": (tensors, "repair", LENET, "out.safetensors"),
    "repair, folder": (folder_of_files, "repair", [], "out"),
    "compact, module": (module, "compact", SHAPE, "out.pt"),
}
QUICK = "compact, onnx"


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == QUICK else pytest.mark.slow) for n in CASES])
def test_kills(name: str, tmp_path: Path) -> None:
    make, command, options, target = CASES[name]
    read, written = tmp_path / "read", tmp_path / "written"
    read.mkdir()
    written.mkdir()
    source = make(read)
    if make is not folder_of_files:  # folders are never overwritten
        (written / target).write_bytes(b"older")
        options = [*options, "--force"]
    given, older = contents(read), contents(written)
    driver: list[str | Path] = [sys.executable, "-m", "tests.commands.killed", "7", written, command, source, *options]
    where = os.environ | {"PYTHONPATH": str(SAMPLES.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*driver, "-o", written / target], env=where, capture_output=True, text=True, check=True)
    first, *others = map(json.loads, done.stdout.splitlines())
    assert first["signal"] == 0
    whole = first["files"]
    assert any(file.split("/")[0] == target for file in whole)
    for found in others:
        # Data of which no model speaks yet may be there.
        files = {file: content for file, content in found["files"].items() if file.split("/")[0] == target}
        assert found["files"] == whole or files in ({}, older), found
    steps = [found for found in others if "step" in found["moment"]]
    assert all(found["signal"] == signal.SIGKILL for found in steps)
    assert len(steps) > 4
    assert any(found["signal"] == signal.SIGXFSZ for found in others)
    assert contents(read) == given
