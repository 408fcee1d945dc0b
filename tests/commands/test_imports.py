"""Commands import only the libraries that a run uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from tests.commands.conftest import SAMPLES
from tests.formats.onnx.models import mlp

HEAVY = {"torch", "onnx", "onnxruntime", "onnxscript", "matplotlib", "transformers", "ray"}
RUN = (
    "import sys; from effsparse_cli.cli import run; code = run(sys.argv[1:]); "
    "print('loaded:', *{name.split('.')[0] for name in sys.modules}); sys.exit(code)"
)
TARGET = ["--target", "0.5"]
ON_ONNX: dict[str, list[str]] = {
    "report": ["report", "model.onnx"],
    "report for Model Explorer": ["report", "model.onnx", "--format", "model-explorer"],
    "annotate": ["annotate", "model.onnx", "-o", "annotated.onnx"],
    "check": ["check", "model.onnx"],
    "diff": ["diff", "model.onnx", "model.onnx"],
    "prune by magnitude": ["prune", "model.onnx", "--lsq", "igq", *TARGET, "-o", "out.onnx"],
    "prune at random": ["prune", "model.onnx", "--method", "random", *TARGET],
    "prune, only masks": ["prune", "model.onnx", *TARGET, "--masks-only", "-o", "masks.safetensors"],
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
    "repair": ["repair", str(SAMPLES / "figure1.pt"), "-o", "out.pt"],
}


def loaded(arguments: list[str], folder: Path) -> set[str]:
    """Return the heavy libraries in a fresh interpreter after it ran a command."""
    done = subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split()) & HEAVY


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_bytes(mlp()[0].SerializeToString())
    return tmp_path


@pytest.mark.parametrize("name", ON_ONNX)
def test_onnx_needs_no_torch(name: str, folder: Path) -> None:
    assert loaded(ON_ONNX[name], folder) <= {"onnx"}


@pytest.mark.parametrize("name", WITH_ONNXRUNTIME)
def test_onnx_is_run_without_torch(name: str, folder: Path) -> None:
    assert loaded(WITH_ONNXRUNTIME[name], folder) == {"onnx", "onnxruntime"}


@pytest.mark.parametrize("name", ON_TORCH)
def test_torch_files_need_torch_alone(name: str, tmp_path: Path) -> None:
    assert loaded(ON_TORCH[name], tmp_path) == {"torch"}


def test_masks_of_an_onnx_model_need_no_torch(folder: Path) -> None:
    _, stored = mlp()
    save_file({name: array != 0 for name, array in stored.items()}, folder / "masks.safetensors")
    assert loaded(["report", "model.onnx", "--masks", "masks.safetensors"], folder) == {"onnx"}
