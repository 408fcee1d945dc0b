"""Exported programs are read as data, and give the same graphs as the modules that they were exported from."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.folding.torch.run import run_traced
from effsparse_cli.formats import LoadOptions, load
from effsparse_cli.formats.torch import from_module
from effsparse_cli.formats.torch.files.exported import ExportedFile
from effsparse_cli.graph.graph import Graph
from effsparse_cli.paths import find_paths
from tests.formats.torch.pt2.programs import MODEL, Parts, edited, parts, tensor
from tests.formats.write import write_kept

ROOT = Path(__file__).parents[4]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 4)
        for weight in (self.conv.weight, self.head.weight):
            weight.data *= torch.rand(weight.shape) > 0.7

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.norm(self.conv(x)).relu().mean((2, 3)))
        return y


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.mix, self.head = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 20, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.mix(self.table(ids)))
        return y


class Buffers(nn.Module):
    kept: torch.Tensor
    dropped: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 6)
        self.register_buffer("kept", torch.randn(6))
        self.register_buffer("dropped", torch.tensor([1.0, 0, 1, 0, 1, 1]), persistent=False)
        self.held = torch.tensor([2.0, 0, 1, 0, 3, 1])

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.last(self.first(x) * self.dropped + self.kept * self.held), "z": x + torch.tensor([1.0] * 4)}


class InPlace(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x)).mean((2, 3))
        y[:, :2] = 0
        y[:, 3:].add_(1)
        z: torch.Tensor = self.head(y)
        return z


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.lstm(x)[0][:, -1])
        return y


class WithoutGradients(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = self.conv(x).relu()
        z: torch.Tensor = self.head(self.norm(y).mean((2, 3)))
        return z


def _pruned() -> nn.Module:
    model = Net()
    prune.random_unstructured(model.conv, "weight", 0.5)  # type: ignore[no-untyped-call]
    prune.l1_unstructured(model.head, "weight", 0.8)  # type: ignore[no-untyped-call]
    return model


def _strided() -> nn.Module:
    model = Net()
    model.head.weight = nn.Parameter(torch.randn(8, 4).t())
    model.conv.weight = nn.Parameter(torch.randn(16, 3, 3, 3)[::2])
    return model


IMAGE = torch.zeros(1, 3, 8, 8)
MODELS: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "convolution": (Net, IMAGE),
    "pruning hooks": (_pruned, IMAGE),
    "bfloat16": (lambda: Net().bfloat16(), IMAGE.bfloat16()),
    "strides": (_strided, IMAGE),
    "channels last": (lambda: Net().to(memory_format=torch.channels_last), IMAGE),  # type: ignore[call-overload]
    "tied weights": (Tied, torch.zeros(1, 4, dtype=torch.int64)),
    "buffers and constants": (Buffers, torch.zeros(1, 4)),
    "in-place operators": (InPlace, IMAGE),
    "recurrent layers": (Recurrent, torch.zeros(1, 5, 8)),
    "without gradients": (WithoutGradients, IMAGE),
}


def same(one: Graph, other: Graph) -> bool:
    nodes = [[(type(node.op), node.inputs, node.shape) for node in graph.nodes] for graph in (one, other)]
    layers = [{name: layer.kept() for name, layer in graph.layers.items()} for graph in (one, other)]
    return nodes[0] == nodes[1] and all(np.array_equal(layers[0][name], kept) for name, kept in layers[1].items())


def exported(path: Path, model: nn.Module, *args: torch.Tensor, **options: Any) -> Path:
    torch.export.save(torch.export.export(model.eval(), args, **options), path)
    return path


@pytest.mark.parametrize("name", MODELS)
def test_file_and_module_give_the_same_graph(name: str, tmp_path: Path) -> None:
    make, x = MODELS[name]
    model = make().eval()
    file = exported(tmp_path / "m.pt2", model, x)
    found, live = load(file, LoadOptions()), from_module(model, (x,), None, LoadOptions())
    assert same(found, live)
    assert set(found.notes) >= set(live.notes)


@pytest.mark.parametrize("name", ["convolution", "buffers and constants", "recurrent layers", "without gradients"])
def test_program_computes_the_outputs_of_the_module(name: str, tmp_path: Path) -> None:
    make, x = MODELS[name]
    model, noise = make().eval(), torch.randn_like(x)
    file = exported(tmp_path / "m.pt2", model, x)
    expected = model(noise)
    expected = list(expected.values()) if isinstance(expected, dict) else [expected]
    found, _ = run_traced(ExportedFile(file, LoadOptions(), to_change=True).traced(), [noise])
    again = ExportedFile(file, LoadOptions(), to_change=True).for_torch().module()(noise)
    for one, two, three in zip(expected, found, again, strict=True):
        assert torch.allclose(one, two, atol=1e-6)
        assert torch.allclose(one, three, atol=1e-6)


def test_open_sizes(tmp_path: Path) -> None:
    """Sizes are computed from the expressions in the file; no operator is run."""

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv1d(3, 8, 3, stride=2), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x)
            flat = y.transpose(1, 2).reshape(x.shape[0] * y.shape[2], 8)
            z: torch.Tensor = self.head(flat + torch.arange(x.shape[0] * y.shape[2])[:, None])
            return z

    model, sizes = Flat(), {"x": {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim("steps", min=5, max=64)}}
    file = exported(tmp_path / "m.pt2", model, torch.zeros(2, 3, 15), dynamic_shapes=sizes)
    shapes: list[tuple[int, ...]] = [(2, 3, 15), (3, 3, 9), (1, 3, 40)]
    for shape in shapes:
        found = load(file, LoadOptions(input_shapes={} if shape[0] == 2 else {"x": shape}))
        assert same(found, from_module(model, (torch.zeros(shape),), None, LoadOptions()))
    wrong: dict[tuple[int, ...], str] = {(2, 3, 65): "not 65", (2, 4, 15): "x has shape .*x3x", (2, 3): "fixed shapes"}
    for shape, expected in wrong.items():
        with pytest.raises(UsageError, match=expected):
            load(file, LoadOptions(input_shapes={"": shape}))


def test_constants_that_double_are_computed_once(tmp_path: Path) -> None:
    """40 additions of a stored weight to itself cost 40 steps, not 2^40."""

    def change(made: Parts) -> None:
        name = "p_0_weight"
        for i in range(40):
            name = made.call("torch.ops.aten.add.Tensor", f"add_{i}", [3, 4], self=tensor(name), other=tensor(name))
        made.graph["nodes"].sort(key=lambda node: node["name"] == "linear")
        made.graph["nodes"][-1]["inputs"][1]["arg"] = tensor(name)

    graph = load(edited(tmp_path / "m.pt2", change), LoadOptions())
    assert all(layer.kept().all() for layer in graph.layers.values())


def test_custom_operators_are_opaque(tmp_path: Path) -> None:
    def change(made: Parts) -> None:
        made.call("torch.ops.theirs.own_op.default", "own", [2, 3], self=tensor("linear"))
        made.graph["outputs"] = [tensor("own")]
        made.program["graph_module"]["signature"]["output_specs"] = [{"user_output": {"arg": tensor("own")}}]

    graph = load(edited(tmp_path / "m.pt2", change), LoadOptions())
    assert [type(node.op).__name__ for node in graph.nodes].count("Opaque") == 1
    with pytest.raises(LoadError, match=r"calls theirs\.own_op, which effsparse does not know"):
        ExportedFile(tmp_path / "m.pt2", LoadOptions(), to_change=True).for_torch()


def test_results_that_differ_from_the_file(tmp_path: Path) -> None:
    def change(made: Parts) -> None:
        made.graph["tensor_values"]["linear"]["sizes"][1] = {"as_int": 5}

    file = edited(tmp_path / "m.pt2", change)
    with pytest.raises(LoadError, match=r"aten\.linear\.default returns 2x5 of float32, but it returns 2x3"):
        ExportedFile(file, LoadOptions(), to_change=True).traced()


def test_files_of_older_versions(tmp_path: Path) -> None:
    """Before torch 2.7, the weights were a torch.save file in a zip file without a folder."""
    made, state, nothing = parts(), io.BytesIO(), io.BytesIO()
    new = made.save(tmp_path / "new.pt2")
    torch.save(ExportedFile(new, LoadOptions()).traced().stored, state)
    torch.save({}, nothing)
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as archive:
        archive.writestr("serialized_exported_program.json", json.dumps(made.program))
        archive.writestr("serialized_state_dict.pt", state.getvalue())
        archive.writestr("serialized_constants.pt", nothing.getvalue())
        archive.writestr("serialized_example_inputs.pt", nothing.getvalue())
        archive.writestr("version", "8.8")
    assert same(load(tmp_path / "old.pt2", LoadOptions()), load(new, LoadOptions()))
    with pytest.raises(UsageError, match="older torch"):
        write_kept(tmp_path / "old.pt2", tmp_path / "out.pt2", {"0": np.zeros((3, 4), bool)})
    assert not (tmp_path / "out.pt2").exists()


def test_only_weights_are_written(tmp_path: Path) -> None:
    file = exported(tmp_path / "m.pt2", _strided(), IMAGE)
    write_kept(file, tmp_path / "out.pt2", {"head": np.eye(4, 8, dtype=bool)})
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(tmp_path / "out.pt2") as new:
        assert new.testzip() is None
        assert old.namelist() == new.namelist()
        assert sum(old.read(name) != new.read(name) for name in old.namelist()) == 1
    was, now = (torch.export.load(path).state_dict for path in (file, tmp_path / "out.pt2"))
    assert torch.equal(now["head.weight"], was["head.weight"] * torch.eye(4, 8))
    assert all(torch.equal(now[name], tensor) for name, tensor in was.items() if name != "head.weight")


def test_report_does_not_import_torch_export() -> None:
    """Neither tracing, nor the compiler, nor sympy is imported."""
    code = (
        "import sys, torch; before = set(sys.modules); from effsparse_cli.cli import run; "
        f"run(['report', {str(ROOT / 'sample_models' / 'transformer_tiny.pt2')!r}]); "
        "print(*set(sys.modules) - before, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    unwanted = ("torch.export", "torch._export", "torch._dynamo", "torch._inductor", "sympy")
    assert "effsparse_cli.formats.torch.pt2.program" in done.stderr
    assert [name for name in done.stderr.split() if name.startswith(unwanted)] == []


def test_program_is_selected_by_name(tmp_path: Path) -> None:
    made = parts()
    content = made.contents()
    made.members["models/other.json"] = content[MODEL]
    assert load(made.save(tmp_path / "m.pt2"), LoadOptions()).layers.keys() == {"0"}


def test_unknown_operator_may_write_to_its_operands(tmp_path: Path) -> None:
    """The output of the first layer reaches the second only through the operand that is written to."""
    with torch.library._scoped_library("effsparse_tests_writing", "FRAGMENT") as library:
        library.define("store(Tensor(a!) x, Tensor y) -> ()")
        library.impl("store", lambda x, y: None, "CompositeExplicitAutograd")
        library.impl("store", lambda x, y: None, "Meta")

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a, self.b = nn.Linear(3, 4, bias=False), nn.Linear(4, 2, bias=False)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.a(x)
                z = torch.zeros_like(y)
                torch.ops.effsparse_tests_writing.store(z, y)
                result: torch.Tensor = self.b(z)
                return result

        path = tmp_path / "writing.pt2"
        torch.export.save(torch.export.export(Net(), (torch.ones(1, 3),)), path)
    counts = {name: edges.count("active") for name, edges in find_paths(load(path, LoadOptions())).items()}
    assert counts == {"a": 12, "b": 8}
