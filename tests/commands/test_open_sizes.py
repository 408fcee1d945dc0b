"""For models with open sizes, every command gives the same counts as for large sizes, and names the size it used."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx import helper
from torch import nn
from torch.export import Dim

from tests.commands.conftest import Run
from tests.commands.open_models import LARGE, attention, front_end, front_module, save, with_positions
from tests.formats.onnx.models import graph, model, sparse_array


@pytest.fixture
def front(tmp_path: Path) -> Path:
    return save(front_end(), tmp_path / "front.onnx")


def document(effsparse: Run, *arguments: object) -> dict[str, Any]:
    outcome = effsparse(*arguments, "--format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def shape_option(shape: tuple[int, ...]) -> list[str]:
    return ["--input-shape", ",".join(map(str, shape))]


def test_a_speech_front_end_is_reported_as_at_real_lengths(effsparse: Run, front: Path) -> None:
    found, large = (document(effsparse, "report", front, *more) for more in ([], shape_option(LARGE)))
    tiny = document(effsparse, "report", front, *shape_option((1, 8, 8)))
    assert found["layers"] == large["layers"]
    assert found["totals"]["active"] > tiny["totals"]["active"]
    assert found["input_shapes"] == {"x": [1, 8, 128]}
    assert found["notes"] == [
        'input shape 1x8x128: the open dimension "time" doubled from 8 until the counts stopped changing'
    ]


def test_images_grow_along_both_axes(effsparse: Run, tmp_path: Path) -> None:
    weights = {f"w{k}": sparse_array(k, 3, 3, 5, 5, density=0.05) for k in range(4)}
    nodes = [
        helper.make_node("Conv", [f"y{k}" if k else "x", name], [f"y{k + 1}"], strides=[2, 2], pads=[2] * 4)
        for k, name in enumerate(weights)
    ]
    content = model(graph(nodes, {"x": ("n", 3, "seq_h", "seq_w")}, ["y4"], weights))
    found = document(effsparse, "report", save(content, tmp_path / "image.onnx"))
    large = document(effsparse, "report", tmp_path / "image.onnx", *shape_option((1, 3, 512, 512)))
    assert found["layers"] == large["layers"]
    assert 'the open dimensions "seq_h" and "seq_w" doubled from 8' in found["notes"][0]


def test_every_command_takes_the_same_sizes(effsparse: Run, front: Path, tmp_path: Path) -> None:
    active = document(effsparse, "report", front)["totals"]["active"]
    fixed = save(front_end(time=4096), tmp_path / "fixed.onnx")
    assert document(effsparse, "diff", front, fixed)["differs"] is False
    checked = document(effsparse, "check", front, "--min-effective", "0")
    assert checked["models"][0]["totals"]["active"] == active
    repaired = document(effsparse, "repair", front, "-o", tmp_path / "repaired.onnx")
    assert repaired["after"]["kept"] == active
    assert any("doubled from 8" in note for note in repaired["notes"])
    assert document(effsparse, "report", tmp_path / "repaired.onnx")["totals"]["active"] == active
    small = document(effsparse, "compact", front, "-o", tmp_path / "small.onnx")
    assert any("doubled from 8" in note for note in small["notes"])
    assert document(effsparse, "report", tmp_path / "small.onnx")["totals"]["active"] == active


def test_a_dense_model_is_pruned_at_a_size_that_suits_what_is_left(effsparse: Run, tmp_path: Path) -> None:
    """At 8 steps everything in the dense model is active, and little of what a high target leaves."""
    dense = save(front_end(density=1, layers=3), tmp_path / "dense.onnx")
    pruned = document(effsparse, "prune", dense, "--target", "0.95", "-o", tmp_path / "pruned.onnx")
    found = document(effsparse, "report", tmp_path / "pruned.onnx", *shape_option(LARGE))
    assert found["totals"]["active"] == pruned["after"]["active"]
    assert pruned["after"] == document(effsparse, "prune", dense, "--target", "0.95", *shape_option(LARGE))["after"]


def test_the_model_itself_ends_the_doubling(effsparse: Run, tmp_path: Path) -> None:
    found = document(effsparse, "report", save(with_positions(40), tmp_path / "positions.onnx"))
    assert found["input_shapes"] == {"ids": [1, 32]}
    assert "the model accepts no larger size" in found["notes"][0]


def test_where_nothing_looks_at_neighbours_nothing_grows(effsparse: Run, tmp_path: Path) -> None:
    found = document(effsparse, "report", save(attention(), tmp_path / "attention.onnx"))
    assert found["input_shapes"] == {"x": [1, 8, 6]}
    assert not any("doubled" in note for note in found["notes"])


def test_a_size_that_the_user_gives_stays(effsparse: Run, front: Path) -> None:
    assert document(effsparse, "report", front, "--dim", "time=16")["input_shapes"] == {"x": [1, 8, 16]}


def test_a_module_that_takes_any_size(effsparse: Run, tmp_path: Path) -> None:
    torch.save(front_module(), tmp_path / "front.pt")
    found = document(effsparse, "report", tmp_path / "front.pt")
    large = document(effsparse, "report", tmp_path / "front.pt", *shape_option(LARGE))
    assert found["layers"] == large["layers"]
    assert "input[2] doubled from 32 until the counts stopped changing" in found["notes"][0]


def test_an_exported_program_with_an_open_axis(effsparse: Run, tmp_path: Path) -> None:
    shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC},)
    program = torch.export.export(front_module(), (torch.zeros(2, 8, 20),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "front.pt2")
    found = document(effsparse, "report", tmp_path / "front.pt2")
    large = document(effsparse, "report", tmp_path / "front.pt2", *shape_option((2, 8, 4096)))
    assert found["layers"] == large["layers"]
    assert found["input_shapes"]["input"][0] == 2
    assert "doubled from 20" in found["notes"][0]


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.conv = nn.Linear(20, 6), nn.Conv1d(10, 6, 3, padding=1)

    def forward(self, features: torch.Tensor, speech: torch.Tensor) -> torch.Tensor:
        return self.fc(features) + self.conv(speech).mean(-1)  # type: ignore[no-any-return]


def on_size(known: bool) -> Any:
    """An `If` on the number of samples: one branch for 480 of them, one for 240, and no other size."""
    branches = {}
    for size in (480, 240):
        node = helper.make_node("MatMul", ["x", f"w{size}"], [f"y{size}"])
        output = helper.make_tensor_value_info(f"y{size}", 1, [1, 4])
        branches[size] = helper.make_graph([node], f"of{size}", [], [output])
    stored: dict[str, Any] = {f"w{size}": sparse_array(size, size, 4) for size in branches}
    stored |= {"axis": torch.tensor(1).numpy(), "limit": torch.tensor(480).numpy()}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "axis"], ["n"]),
        helper.make_node("Equal", ["n", "limit"], ["is480"]),
        helper.make_node("If", ["is480"], ["y"], then_branch=branches[480], else_branch=branches[240]),
        helper.make_node("ReduceSum", ["state"], ["total"], keepdims=0),
        helper.make_node("Add", ["y", "total"], ["out"]),
    ]
    content = model(graph(nodes, {"x": ("batch", "samples"), "state": (2, "n", 4)}, ["out"], stored))
    if not known:
        content.graph.input[0].type.tensor_type.ClearField("shape")
    return content


def suggested_command(effsparse: Run, *arguments: object) -> tuple[int, str, list[str]]:
    """The code, the message, and the command in it."""
    outcome = effsparse(*arguments)
    return outcome.code, outcome.message, shlex.split(outcome.message.partition("for example: effsparse ")[2])


@pytest.mark.parametrize("known", [True, False])
def test_an_onnx_model_with_an_if_on_its_size(effsparse: Run, tmp_path: Path, known: bool) -> None:
    path = save(on_size(known), tmp_path / "m.onnx")
    code, message, command = suggested_command(effsparse, "report", path)
    assert code in (2, 3)
    assert f"Its inputs are x [{'batch, samples' if known else '...'}] float32, state [2, n, 4] float32." in message
    assert effsparse(*command).code == 0


def test_an_onnx_model_whose_features_are_open(effsparse: Run, tmp_path: Path) -> None:
    stored = {"a": sparse_array(1, 20, 6), "b": sparse_array(2, 30, 6)}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["xa"]),
        helper.make_node("MatMul", ["y", "b"], ["yb"]),
        helper.make_node("Add", ["xa", "yb"], ["out"]),
    ]
    path = save(model(graph(nodes, {"x": ("n", "f"), "y": ("n", "g")}, ["out"], stored)), tmp_path / "a b.onnx")
    code, _, command = suggested_command(effsparse, "prune", path, "--target", "0.9", "--input-shape", "1,7")
    assert code == 3
    assert command == ["prune", str(path), "--target", "0.9", "--input-shape", "x=1,20", "--input-shape", "y=1,30"]
    assert effsparse(*command).code == 0


def test_a_module_with_two_inputs(effsparse: Run, tmp_path: Path) -> None:
    torch.save(TwoInputs().state_dict(), tmp_path / "two.pt")
    given = ["report", tmp_path / "two.pt", "--arch", f"{__name__}:TwoInputs"]
    for more in ([], ["--input-shape", "1,20"]):
        code, message, command = suggested_command(effsparse, *given, *more)
        assert code == 2
        assert "Its inputs are features float32, speech float32." in message
        assert command[-4:] == ["--input-shape", "features=1,20", "--input-shape", "speech=1,10,32"]
        assert effsparse(*command).code == 0


def test_a_program_with_two_inputs_has_its_shapes(effsparse: Run, tmp_path: Path) -> None:
    program = torch.export.export(TwoInputs(), (torch.zeros(1, 20), torch.zeros(1, 10, 30)))
    torch.export.save(program, tmp_path / "two.pt2")
    assert document(effsparse, "report", tmp_path / "two.pt2")["input_shapes"] == {
        "features": [1, 20],
        "speech": [1, 10, 30],
    }


@pytest.mark.parametrize(
    ("shape", "expected"), [("1,3,x", "'x' is not a size"), ("1,,3", "a size is missing"), ("x=", "a size is missing")]
)
def test_shapes_that_cannot_be_read(effsparse: Run, front: Path, shape: str, expected: str) -> None:
    outcome = effsparse("report", front, "--input-shape", shape)
    assert outcome.code == 2
    assert expected in outcome.message


def test_a_table_of_positions_tells_the_length(effsparse: Run, tmp_path: Path) -> None:
    """Like the encoder of Whisper, which accepts one length only, after a convolution that halves it."""
    stored = {"conv.weight": sparse_array(1, 6, 8, 3), "positions": sparse_array(2, 6, 75, density=1)}
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["c"], strides=[2], pads=[1, 1]),
        helper.make_node("Add", ["c", "positions"], ["out"]),
    ]
    path = save(model(graph(nodes, {"x": ("n", "f", "time")}, ["out"], stored)), tmp_path / "m.onnx")
    code, message, command = suggested_command(effsparse, "report", path)
    assert code == 3
    assert "Its input is x [n, f, time] float32." in message
    assert command[-1] == "x=1,8,150"
    assert effsparse(*command).code == 0
