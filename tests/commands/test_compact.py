"""`effsparse compact` on real files: what it writes runs and is smaller, and inputs are safe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from tests.commands.conftest import SAMPLES, Run


def document(effsparse: Run, *arguments: object) -> dict[str, Any]:
    outcome = effsparse(*arguments, "--format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def save(file: Path, dead: bool = True, external: bool = False, width: int = 40) -> None:
    """A network of two layers with an open batch; half of the neurons between them are not read."""
    dice = np.random.default_rng(0)
    first, second = (dice.standard_normal(shape).astype(np.float32) for shape in ((width, 12), (5, width)))
    if dead:
        second[:, ::2] = 0
    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "fc2.weight"], ["y"], transB=1),
    ]
    tensors = {"fc1.weight": first, "fc1.bias": np.ones(width, np.float32), "fc2.weight": second}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save_model(model, file, save_as_external_data=external, location=f"{file.name}.data", size_threshold=0)


def run_onnx(file: Path, x: Any) -> Any:
    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@pytest.mark.parametrize("external", [False, True])
def test_onnx(effsparse: Run, tmp_path: Path, external: bool) -> None:
    source, target = tmp_path / "in" / "model.onnx", tmp_path / "small.onnx"
    source.parent.mkdir()
    save(source, external=external)
    before = {file: file.read_bytes() for file in source.parent.iterdir()}
    found = document(effsparse, "compact", source, "-o", target)
    assert {file: file.read_bytes() for file in source.parent.iterdir()} == before
    assert [(x["name"], x["after"]["shape"]) for x in found["layers"]] == [("fc1", [20, 12]), ("fc2", [5, 20])]
    assert (found["before"]["multiply_adds"], found["after"]["multiply_adds"]) == (680, 340)
    assert found["after"]["bytes"] == target.stat().st_size < found["before"]["bytes"]
    assert found["shrunk"]
    assert found["difference"] <= 1e-5 * found["largest_output"]
    x = np.random.default_rng(1).standard_normal((7, 12)).astype(np.float32)
    np.testing.assert_allclose(run_onnx(target, x), run_onnx(source, x), rtol=1e-4, atol=1e-4)
    assert onnx.load(target).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["small.onnx"]


def test_nothing_dead(effsparse: Run, tmp_path: Path) -> None:
    save(tmp_path / "model.onnx", dead=False)
    outcome = effsparse("compact", tmp_path / "model.onnx", "-o", tmp_path / "same.onnx")
    assert outcome.code == 0
    assert "nothing could be removed, every channel and neuron is used" in " ".join(outcome.out.split())
    x = np.ones((2, 12), np.float32)
    np.testing.assert_array_equal(run_onnx(tmp_path / "same.onnx", x), run_onnx(tmp_path / "model.onnx", x))


def test_module_to_module_and_to_onnx(effsparse: Run, tmp_path: Path) -> None:
    source = SAMPLES / "lenet300_uniform99.pt"
    shapes = []
    for name in ("small.pt", "small.onnx"):
        found = document(effsparse, "compact", source, "-o", tmp_path / name)
        shapes.append([layer["after"]["shape"] for layer in found["layers"]])
        report = document(effsparse, "report", tmp_path / name)
        assert report["totals"]["active"] == report["totals"]["kept"] > 0
    assert shapes[0] == shapes[1]
    small = torch.load(tmp_path / "small.pt", weights_only=False)
    whole = torch.load(source, weights_only=False)
    x = torch.randn(2, 784)
    torch.testing.assert_close(small(x), whole(x), rtol=1e-4, atol=1e-7)


def test_program_and_table(effsparse: Run, tmp_path: Path) -> None:
    outcome = effsparse("compact", "transformer_tiny.pt2", "-o", tmp_path / "small.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split()[:3] == ["layer", "before", "after"]
    assert "Written to" in outcome.out
    assert "in onnxruntime" in " ".join(outcome.out.split())


def test_without_a_file_nothing_is_written(effsparse: Run, tmp_path: Path) -> None:
    save(tmp_path / "model.onnx")
    assert "Nothing written" in " ".join(effsparse("compact", tmp_path / "model.onnx").out.split())
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["nosuch.onnx", "-o", "OUT/x.onnx"], 3, "does not exist"),
        (["figure1.pt", "-o", "OUT/x.safetensors"], 2, "use .onnx or .pt"),
        (["lstm.pt2", "-o", "OUT/x.pt"], 2, "Use .onnx."),
        (["figure1.pt", "-o", "OUT/none/x.pt"], 2, "does not exist"),
        (["figure1.pt", "-o", "figure1.pt"], 2, "never overwritten"),
        (["figure1.pt", "--masks", "m.npz", "-o", "OUT/x.pt"], 2, "pruned weights are zero"),
        (["figure1.pt", "--input-shape", "1,4", "-o", "OUT/x.pt"], 2, "--input-shape"),
        (["figure1.pt", "--outputs", "nosuch", "-o", "OUT/x.onnx"], 2, "no output"),
    ],
)
def test_wrong_usage(effsparse: Run, tmp_path: Path, arguments: list[str], code: int, expected: str) -> None:
    outcome = effsparse("compact", *(argument.replace("OUT", str(tmp_path)) for argument in arguments))
    assert (outcome.code, outcome.out) == (code, "")
    assert expected in outcome.message
    assert list(tmp_path.iterdir()) == []


def test_a_state_dict_becomes_onnx_only(effsparse: Run, tmp_path: Path) -> None:
    torch.save(torch.load(SAMPLES / "lenet300_uniform99.pt", weights_only=False).state_dict(), tmp_path / "state.pt")
    refused = effsparse("compact", tmp_path / "state.pt", "--arch", "lenet-300-100", "-o", tmp_path / "small.pt")
    assert refused.code == 2
    assert "-o FILE.onnx" in refused.message
    assert not (tmp_path / "small.pt").exists()
    written = effsparse("compact", tmp_path / "state.pt", "--arch", "lenet-300-100", "-o", tmp_path / "small.onnx")
    assert (written.code, written.err) == (0, "")
