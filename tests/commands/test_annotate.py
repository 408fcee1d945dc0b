"""`effsparse annotate`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import onnx

from tests.commands.conftest import SAMPLES, Run


def test_prints_what_it_wrote(effsparse: Run, tmp_path: Path) -> None:
    target = tmp_path / "annotated.onnx"
    outcome = effsparse("annotate", "lenet5.onnx", "-o", target)
    assert outcome.code == 0
    assert f"lenet5.onnx: annotated 5 operators and the model. Written to {target}." in " ".join(outcome.out.split())
    entries = {entry.key: entry.value for entry in onnx.load(target).metadata_props}
    assert entries["effsparse.effective_sparsity"] == "0.9923911283794722"


def test_json(effsparse: Run, tmp_path: Path) -> None:
    target = tmp_path / "annotated.onnx"
    document = json.loads(effsparse("annotate", "lenet5.onnx", "-o", target, "--format", "json").out)
    assert document["metadata"]["active"] == "470"
    assert [each["operator"] for each in document["operators"]] == ["conv1", "conv2", "fc1", "fc2", "fc3"]
    node = next(node for node in onnx.load(target).graph.node if node.name == "fc1")
    written = {entry.key.removeprefix("effsparse."): entry.value for entry in node.metadata_props}
    assert written == document["operators"][2]["metadata"]


def test_load_options_count(effsparse: Run, tmp_path: Path) -> None:
    outcome = effsparse("annotate", "masked.onnx", "--zeros-are-pruned", "-o", tmp_path / "a.onnx", "--format", "json")
    report = json.loads(effsparse("report", "masked.onnx", "--zeros-are-pruned", "--format", "json").out)
    assert json.loads(outcome.out)["metadata"]["kept"] == str(report["totals"]["kept"])


def test_refuses(effsparse: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    older = (SAMPLES / "masked.onnx").read_bytes()
    target.write_bytes(older)
    for arguments, message in {
        ("figure1.pt", "-o", target): "not an ONNX file",
        ("lstm.pt2", "-o", target): "not an ONNX file",
        ("lenet5.onnx",): "nothing to write: add -o FILE or --in-place.",
        ("lenet5.onnx", "-o", "lenet5.onnx"): "is an input, and inputs are never overwritten",
        ("lenet5.onnx", "-o", target): "is an existing model. Choose another file, or add --force",
        ("lenet5.onnx", "-o", tmp_path / "out.pt"): "the output must have the format of lenet5.onnx",
        ("lenet5.onnx", "-o", target, "--in-place"): "use either --in-place or -o FILE, not both.",
    }.items():
        outcome = effsparse("annotate", *arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert message in outcome.message
    assert target.read_bytes() == older
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]
    assert effsparse("annotate", "lenet5.onnx", "-o", target, "--force").code == 0
