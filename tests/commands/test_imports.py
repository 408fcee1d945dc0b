"""Commands import only the libraries that a run uses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from tests.commands.conftest import SAMPLES
from tests.formats.onnx.models import mlp

HEAVY = {"torch", "onnx", "onnxruntime", "onnxscript", "matplotlib", "transformers", "ray"}
RUN = """
import json, sys
from effsparse_cli.cli import run
for line in sys.stdin:
    print("\\nloaded:", run(json.loads(line)), *{name.split(".")[0] for name in sys.modules}, flush=True)
"""
TARGET = ["--target", "0.5"]
ON_ONNX: dict[str, list[str]] = {
    "report": ["report", "model.onnx"],
    "report with masks": ["report", "model.onnx", "--masks", "masks.safetensors"],
    "report for Model Explorer": ["report", "model.onnx", "--format", "model-explorer"],
    "annotate": ["annotate", "model.onnx", "-o", "annotated.onnx"],
    "check": ["check", "model.onnx"],
    "diff": ["diff", "model.onnx", "model.onnx"],
    "prune by magnitude": ["prune", "model.onnx", "--lsq", "igq", *TARGET, "-o", "out.onnx"],
    "prune at random": ["prune", "model.onnx", "--method", "random", *TARGET],
    "prune, only masks": ["prune", "model.onnx", *TARGET, "--masks-only", "-o", "new-masks.safetensors"],
    "quotas": ["quotas", "model.onnx", *TARGET],
    "curve": ["curve", "model.onnx", "--points", "4"],
    "curve at random": ["curve", "model.onnx", "--method", "random", "--points", "4"],
    "repair to a target": ["repair", "model.onnx", *TARGET],
    "repair, budget": ["repair", "model.onnx", "--budget-neutral"],
}
WITH_ONNXRUNTIME: dict[str, list[str]] = {
    "repair": ["repair", "model.onnx", "-o", "repaired.onnx"],
    "compact": ["compact", "model.onnx", "-o", "small.onnx"],
}
ON_TORCH: dict[str, list[str]] = {
    "report": ["report", str(SAMPLES / "figure1.pt")],
    "report, program": ["report", str(SAMPLES / "lstm.pt2")],
    "prune": ["prune", str(SAMPLES / "figure1.pt"), *TARGET, "-o", "out.pt"],
    "repair": ["repair", str(SAMPLES / "figure1.pt"), "-o", "repaired.pt"],
}


def loaded(commands: Iterable[list[str]], folder: Path) -> list[set[str]]:
    """Run commands one after the other in a fresh interpreter, and return its heavy libraries after each of them."""
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input="\n".join(map(json.dumps, commands)),
        capture_output=True,
        text=True,
        cwd=folder,
    )
    ends = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("loaded:")]
    assert [code for code, *_ in ends if code != "0"] == [], done.stderr
    return [set(names) & HEAVY for _, *names in ends]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_bytes(mlp()[0].SerializeToString())
    return tmp_path


def test_onnx_needs_no_torch(folder: Path) -> None:
    _, stored = mlp()
    save_file({name: array != 0 for name, array in stored.items()}, folder / "masks.safetensors")
    after = dict(zip(ON_ONNX, loaded(ON_ONNX.values(), folder), strict=True))
    assert {name: libraries for name, libraries in after.items() if not libraries <= {"onnx"}} == {}


def test_onnx_is_run_without_torch(folder: Path) -> None:
    assert loaded(WITH_ONNXRUNTIME.values(), folder) == [{"onnx", "onnxruntime"}] * len(WITH_ONNXRUNTIME)


def test_torch_files_need_torch_alone(tmp_path: Path) -> None:
    assert loaded(ON_TORCH.values(), tmp_path) == [{"torch"}] * len(ON_TORCH)
