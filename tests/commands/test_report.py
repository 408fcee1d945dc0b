"""`effsparse report` on real files: what it prints, what it writes, and that its options do what they say."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.commands.options.common import ENGINES
from effsparse_cli.paths import ENGINES as ENGINES_OF_PATHS
from effsparse_cli.report.analysis import FORMATS
from tests.checks.models import chain, write_mlp
from tests.commands.conftest import SAMPLES, Run

SHAPES = {"lenet5_igq.pt": ["--input-shape", "1,3,32,32"]}


def document(effsparse: Run, *arguments: object) -> dict[str, Any]:
    outcome = effsparse("report", *arguments, "--format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def test_figure_1(effsparse: Run) -> None:
    totals = document(effsparse, "figure1.pt")["totals"]
    assert (totals["connections"], totals["kept"], totals["active"]) == (21, 10, 5)
    assert totals["direct_sparsity"] == pytest.approx(11 / 21)
    assert totals["effective_sparsity"] == pytest.approx(16 / 21)
    assert (totals["direct_compression"], totals["effective_compression"]) == (2.1, 4.2)
    assert totals["disconnected"] is False


def test_the_papers_headline(effsparse: Run) -> None:
    found = document(effsparse, "lenet300_uniform99.pt")
    assert [layer["active"] for layer in found["layers"]] == [212, 30, 9]
    assert found["totals"]["direct_compression"] == 100
    assert 1000 < found["totals"]["effective_compression"] < 1100


@pytest.mark.parametrize("name", sorted(file.name for file in SAMPLES.glob("*.pt*") if file.suffix != ".pth"))
def test_every_sample_model(effsparse: Run, name: str) -> None:
    found = document(effsparse, name, *SHAPES.get(name, []))
    assert not found["totals"]["disconnected"]
    assert found["unknown_operators"] == []
    assert 0 < found["totals"]["active"] < found["totals"]["kept"] < found["totals"]["connections"]


def test_json_is_as_fixed(effsparse: Run) -> None:
    found = document(effsparse, "figure1.pt")
    assert found["schema_version"] == 1
    assert list(found)[:6] == ["schema_version", "model", "input_shapes", "totals", "layers", "notes"]
    sparsities = ["connections", "kept", "active", "direct_sparsity", "effective_sparsity"]
    assert list(found["totals"]) == [*sparsities, "direct_compression", "effective_compression", "disconnected"]
    assert list(found["layers"][0]) == ["name", "op", "shape", *sparsities, "inactive", "bias_carriers"]
    assert list(found["layers"][0]["inactive"]) == ["no_input", "no_output", "both", "padding"]
    assert found["layers"][1]["inactive"] == {"no_input": 1, "no_output": 1, "both": 1, "padding": 0}


@pytest.mark.parametrize("form", FORMATS)
def test_file_holds_what_would_be_printed(effsparse: Run, tmp_path: Path, form: str) -> None:
    printed = effsparse("report", "lenet5.onnx", "--format", form)
    written = effsparse("report", "lenet5.onnx", "--format", form, "-o", tmp_path / "out")
    assert (printed.code, written.code, written.out) == (0, 0, "")
    assert (tmp_path / "out").read_text(encoding="utf-8") == printed.out
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_active_masks(effsparse: Run, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"active{suffix}"
    assert effsparse("report", "figure1.pt", "--active-masks", file).code == 0
    masks = load_file(file) if suffix == ".safetensors" else dict(np.load(file))
    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "fc1.weight": [[True, True, True], [False, False, False], [False, False, False]],
        "fc2.weight": [[True, False, False], [False, False, False], [False, False, False]],
        "fc3.weight": [[True, False, False]],
    }


def test_layers_are_filtered_and_totals_are_not(effsparse: Run) -> None:
    found = document(effsparse, "figure1.pt", "--layers", "fc[12]*", "--layers", "fc3,*3")
    assert [layer["name"] for layer in found["layers"]] == ["fc1", "fc2", "fc3"]
    found = document(effsparse, "figure1.pt", "--layers", "*2*")
    assert [layer["name"] for layer in found["layers"]] == ["fc2"]
    assert found["totals"]["connections"] == 21


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("order", "fc1 fc2 fc3"),
        ("direct", "fc3 fc2 fc1"),
        ("effective", "fc2 fc1 fc3"),
        ("gap", "fc2 fc1 fc3"),
        ("inactive", "fc2 fc1 fc3"),
        ("weights", "fc1 fc2 fc3"),
        ("name", "fc1 fc2 fc3"),
    ],
)
def test_sort(effsparse: Run, key: str, order: str) -> None:
    rows = csv.DictReader(io.StringIO(effsparse("report", "figure1.pt", "-f", "csv", "--sort", key).out))
    assert " ".join(row["name"] for row in rows) == f"{order} total"


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_agree(effsparse: Run, engine: str) -> None:
    found = document(effsparse, "figure1.pt", "--engine", engine)
    assert found["engine"] == engine
    assert found["layers"] == document(effsparse, "figure1.pt")["layers"]


def test_engines_of_the_option_are_those_there_are() -> None:
    assert set(ENGINES) == set(ENGINES_OF_PATHS)


def test_embeddings_count_only_when_asked(effsparse: Run) -> None:
    apart = document(effsparse, "transformer_tiny.pt2")
    counted = document(effsparse, "transformer_tiny.pt2", "--count-embeddings")
    assert [layer["name"] for layer in apart["embeddings"]] == ["tokens"]
    assert counted["embeddings"] == []
    assert counted["totals"]["connections"] == apart["totals"]["connections"] + 64 * 32


def test_norms_cut_unless_told_not_to(effsparse: Run) -> None:
    cut, whole = (
        document(effsparse, "resnet_small.pt2", *option)["totals"]["active"] for option in ([], ["--norms-dont-cut"])
    )
    assert cut < whole


@pytest.mark.parametrize("shape", ["2,3,32,32", "2x3x32x32", "input=2,3,32,32"])
def test_input_shape(effsparse: Run, shape: str) -> None:
    found = document(effsparse, "lenet5_igq.pt", "--input-shape", shape)
    assert found["input_shapes"] == {"input": [2, 3, 32, 32]}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A training checkpoint: a state_dict with masks, and other entries."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    prune.random_unstructured(model[0], "weight", 18)  # type: ignore[no-untyped-call]
    model.get_parameter("2.weight").data[:, ::2] = 0
    torch.save({"epoch": 3, "state_dict": model.state_dict()}, tmp_path / "last.ckpt")
    return tmp_path / "last.ckpt"


def test_direct_only_needs_no_graph(effsparse: Run, checkpoint: Path) -> None:
    found = document(effsparse, checkpoint, "--direct-only")
    assert found["direct_only"] is True
    assert found["totals"] == {"weights": 36, "kept": 12, "direct_sparsity": pytest.approx(2 / 3)}
    assert [(row["name"], row["shape"], row["kept"]) for row in found["tensors"]] == [
        ("0.weight", [6, 4], 6),
        ("2.weight", [2, 6], 6),
    ]
    assert "effective sparsity is at least this value" in found["notes"][0]
    assert "every floating-point tensor with two or more dimensions" in found["notes"][1]
    assert "embedding" in found["notes"][1]


def test_direct_only_says_the_same_in_every_format(effsparse: Run, checkpoint: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(effsparse("report", checkpoint, "--direct-only", "-f", "csv").out)))
    assert [(row["name"], row["weights"], row["kept"]) for row in rows] == [
        ("0.weight", "24", "6"),
        ("2.weight", "12", "6"),
        ("total", "36", "12"),
    ]
    for form in ("table", "markdown"):
        text = effsparse("report", checkpoint, "--direct-only", "-f", form).out
        for expected in ("0.weight", "6x4", "75.00 %", "50.00 %", "66.67 %", "3x", "--arch provides the graph"):
            assert expected in text, (form, expected)
    part = effsparse("report", checkpoint, "--direct-only", "--layers", "2.*", "--sort", "direct").out
    assert "0.weight" not in part
    assert "whole file" in part


def test_direct_only_is_for_files_without_a_graph(effsparse: Run, checkpoint: Path) -> None:
    outcome = effsparse("report", "lstm.pt2", "--direct-only")
    assert (outcome.code, outcome.out) == (2, "")
    assert "has a graph" in outcome.message
    module = document(effsparse, "figure1.pt", "--direct-only")
    assert module["totals"]["kept"] == 10
    tolerant = document(effsparse, checkpoint, "--direct-only", "--zero-tol", "100")
    assert tolerant["totals"]["kept"] == 6, "a mask decides, and elsewhere everything is small"


def test_state_dict_with_architecture(effsparse: Run, tmp_path: Path) -> None:
    model = torch.load(SAMPLES / "lenet300_uniform99.pt", weights_only=False)
    torch.save({"module." + name: tensor for name, tensor in model.state_dict().items()}, tmp_path / "m.pth")
    found = document(effsparse, tmp_path / "m.pth", "--arch", "lenet-300-100")
    assert found["layers"] == document(effsparse, "lenet300_uniform99.pt")["layers"]


def test_direct_only_refuses_a_format_that_only_report_has(tmp_path: Path) -> None:
    """As a contributor would add one: a function in the FORMATS table of report.analysis."""
    write_mlp(tmp_path / "m.onnx", chain())
    code = (
        "import sys; from effsparse_cli.report.analysis import FORMATS; FORMATS['html'] = lambda page: '<html>\\n';"
        "from effsparse_cli.cli import run; sys.exit(run(['report', *sys.argv[1:], '--format', 'html']))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "<html>\n")
    done = subprocess.run([*command, "--direct-only"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--direct-only has no format 'html': use table, json, csv, markdown." in done.stderr
