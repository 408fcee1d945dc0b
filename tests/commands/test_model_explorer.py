"""`effsparse report --format model-explorer`: one number per node of the files that Model Explorer shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import effsparse
from tests.commands.conftest import SAMPLES, Run

PROGRAMS = ("depthwise.pt2", "lstm.pt2", "resnet_small.pt2", "transformer_tiny.pt2")


@pytest.mark.parametrize("model", PROGRAMS)
def test_nodes_of_a_program_have_the_names_of_torch(effsparse: Run, model: str) -> None:
    """Model Explorer takes them from torch.export.load. Each is an operator that uses weights."""
    outcome = effsparse("report", model, "--format", "model-explorer")
    (graph,) = json.loads(outcome.out).values()
    program = torch.export.load(SAMPLES / model)
    weights = {*program.graph_signature.inputs_to_parameters}
    users = {node.name for node in program.graph.nodes if weights & {each.name for each in node.all_input_nodes}}
    assert graph["results"].keys() <= users
    assert len(graph["results"]) == sum(
        node.op == "call_function" and "norm" not in str(node.target)
        for node in program.graph.nodes
        if node.name in users
    )


class InPlace(nn.Module):
    """A program whose in-place operators are rewritten before it is measured."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        h[:, 0].mul_(0)
        y: torch.Tensor = self.second(h.relu_())
        return y


def test_program_with_operators_in_place(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(InPlace(), (torch.zeros(1, 4),)), tmp_path / "m.pt2")
    nodes = effsparse.analyze(tmp_path / "m.pt2").viewer_nodes
    assert nodes == {("graph", "linear"): ("first",), ("graph", "linear_1"): ("second",)}


class Frozen(nn.Module):
    """Model Explorer shows what runs without gradients as one node."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            h = self.second(self.first(x))
        y: torch.Tensor = self.third(h)
        return y


def test_program_with_a_graph_inside(tmp_path: Path) -> None:
    program = torch.export.export(Frozen(), (torch.zeros(1, 4),))
    torch.export.save(program, tmp_path / "m.pt2")
    nodes = effsparse.analyze(tmp_path / "m.pt2").viewer_nodes
    assert nodes is not None
    assert ("first", "second") in nodes.values()
    loaded = torch.export.load(tmp_path / "m.pt2")
    assert {name for _, name in nodes} <= {node.name for node in loaded.graph.nodes}


def test_one_column(effsparse: Run, tmp_path: Path) -> None:
    report = json.loads(effsparse("report", "lenet5.onnx", "--format", "json").out)
    command = ["report", "lenet5.onnx", "--format", "model-explorer", "-o", tmp_path / "data.json", "--columns"]
    for column, value in {"direct": "direct_sparsity", "active": "active"}.items():
        assert effsparse(*command, column).code == 0
        (graph,) = json.loads((tmp_path / "data.json").read_text()).values()
        assert [each["value"] for each in graph["results"].values()] == [layer[value] for layer in report["layers"]]
    for columns in ("direct,effective", "pattern"):
        outcome = effsparse(*command, columns)
        assert outcome.code == 2
        assert "--format model-explorer shows one number: use --columns with one of" in outcome.message


def test_selected_layers(effsparse: Run) -> None:
    outcome = effsparse("report", "lenet5.onnx", "--format", "model-explorer", "--layers", "fc*")
    assert list(json.loads(outcome.out)["lenet5"]["results"]) == ["fc1", "fc2", "fc3"]
    outcome = effsparse("report", "resnet_small.pt2", "--format", "model-explorer", "--depth", "1")
    assert outcome.code == 2
    assert "remove --depth" in outcome.message


def test_other_formats_are_refused(effsparse: Run) -> None:
    for model in ("figure1.pt", "llama_tiny"):
        outcome = effsparse("report", model, "--format", "model-explorer")
        assert (outcome.code, outcome.out) == (2, "")
        assert "Model Explorer shows ONNX models and programs saved with torch.export.save" in outcome.message
