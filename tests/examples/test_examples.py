"""Every example runs, and does what it says."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import numpy_helper
from pre_commit.yaml import yaml_load

import effsparse
from effsparse_cli.cli import run
from tests.torchvision_models import models

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run in an empty folder, on one thread: several tests share the cores."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run_example(name: str, *arguments: str) -> dict[str, Any]:
    argv, sys.argv = sys.argv, [name, *arguments]
    try:
        return runpy.run_path(str(FOLDER / name), run_name="__main__")
    finally:
        sys.argv = argv


def losses(text: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"epoch \d+: loss ([\d.]+)", text)]


def test_every_example_is_listed() -> None:
    listed = re.findall(r"^\| \[([\w.]+)\]", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    entries = [entry.name for entry in FOLDER.iterdir() if entry.name not in ("README.md", "__pycache__")]
    assert sorted(listed) == sorted(entries)


def test_lenet5_snip(capsys: pytest.CaptureFixture[str]) -> None:
    assert len((FOLDER / "lenet5_snip.py").read_text(encoding="utf-8").splitlines()) <= 40
    names = run_example("lenet5_snip.py")
    model, x = names["model"], names["x"]
    totals = effsparse.analyze(model, x).totals
    # 1 % of 61,470 connections, and a few more where only several can be removed together.
    assert totals.kept == totals.active
    assert 615 <= totals.active < 700
    printed = losses(capsys.readouterr().out)
    assert printed[-1] < printed[2] / 2  # fine-tuning repairs what pruning has broken
    small = torch.load("lenet5_small.pt", weights_only=False)
    images = names["images"][:100]
    assert torch.allclose(small(images), model(images), atol=1e-4)
    assert sum(p.numel() for p in small.parameters()) < 10_000


def test_lenet5_snip_reads_mnist(tmp_path: Path) -> None:
    """With files in the format of MNIST."""
    images, labels = torch.randint(256, (640, 784), dtype=torch.uint8), torch.randint(10, (640,), dtype=torch.uint8)
    Path("images").write_bytes(bytes(16) + images.numpy().tobytes())
    Path("labels").write_bytes(bytes(8) + labels.numpy().tobytes())
    names = run_example("lenet5_snip.py", "images", "labels")
    assert torch.equal(names["images"], images.view(640, 1, 28, 28) / 255)
    assert torch.equal(names["labels"], labels.long())
    assert effsparse.analyze(names["model"], names["x"]).totals.effective_sparsity <= 0.99


def test_gradual_pruning(capsys: pytest.CaptureFixture[str]) -> None:
    run_example("gradual_pruning.py")
    assert losses(capsys.readouterr().out)[-1] < 0.5
    totals = effsparse.analyze("pruned.pt", input_shape=(1, 28, 28)).totals
    assert totals.kept == totals.active
    assert 5_324 <= totals.active < 5_400


def test_lightning_run(capsys: pytest.CaptureFixture[str]) -> None:
    models()  # Lightning imports torchvision if it is installed
    pytest.importorskip("lightning")
    run_example("lightning_run.py")
    log = Path("sparsity_log/version_0/metrics.csv").read_text(encoding="utf-8")
    assert "sparsity/effective_sparsity/2" in log
    assert "0.8999" in log


def test_trainer_run(capsys: pytest.CaptureFixture[str]) -> None:
    models()
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    run_example("trainer_run.py")
    printed = capsys.readouterr().out
    assert "sparsity/effective_sparsity/bert.encoder.layer.1.attention.self.key" in printed
    kept, active = re.findall(r"kept=(\d+), active=(\d+)", printed)[0]
    assert kept == active
    assert int(kept) < 9_000


def test_notebook() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(FOLDER / "effective_sparsity.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
    pages = [output["data"]["text/html"] for output in shown if "text/html" in output["data"]]
    assert len(pages) == 5
    assert all("<table" in page for page in pages)


def test_ci_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "repository"
    shutil.copytree(FOLDER / "ci_repository", folder)
    monkeypatch.chdir(folder)
    assert run(["check"]) == 0
    workflow = yaml_load((folder / ".github/workflows/sparsity.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["sparsity"]["steps"][-1]["run"] == "effsparse check --format github"

    model = onnx.load(folder / "models/classifier.onnx")
    (weight,) = (tensor for tensor in model.graph.initializer if tensor.name == "fc2.weight")
    revived = numpy_helper.to_array(weight).copy()
    revived[:, 0] = 1
    weight.CopyFrom(numpy_helper.from_array(revived, weight.name))
    onnx.save(model, folder / "models/classifier.onnx")
    capsys.readouterr()
    assert run(["check"]) == 1
    assert "EFF008 regression" in capsys.readouterr().out
