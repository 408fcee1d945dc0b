"""Names of graphs and nodes in Model Explorer, against the pass that its ONNX adapter uses, and against the adapter
itself where it is installed: pip install model-explorer-onnx."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx_ir.passes.common import NameFixPass

from effsparse_cli.formats.onnx.viewer_nodes import name_nodes
from tests.formats.onnx.hostile.build import node
from tests.formats.onnx.models import graph, mlp, model, tensor
from tests.formats.onnx.test_metadata import branches, in_functions, recurrent, saved

NAMES = st.lists(st.sampled_from(["", "node", "node_1", "a", "a_1", "b"]), min_size=1, max_size=9)


def named(names: list[str]) -> ModelProto:
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"], name=name) for i, name in enumerate(names)]
    return model(graph(nodes, {"v0": (1, 4)}, [f"v{len(names)}"]))


@given(NAMES)
def test_names_are_made_unique_like_the_adapter_does(names: list[str]) -> None:
    content = named(names)
    fixed = onnx_ir.from_proto(content)
    NameFixPass()(fixed)
    assert [name for _, name in name_nodes(content).values()] == [each.name for each in fixed.graph]


def looped() -> ModelProto:
    """A loop with an If in its body, and an If with a loop in its branch; operators have no names or the same."""
    stored = {"w": np.ones((4, 4), np.float32), "n": np.asarray(3), "yes": np.asarray(True)}

    def body(inner: list[NodeProto], prefix: str) -> object:
        nodes = [*inner, node("MatMul", f"{prefix}h w", f"{prefix}s"), node("Identity", f"{prefix}c", f"{prefix}d")]
        made = graph(nodes, {f"{prefix}i": (), f"{prefix}c": (), f"{prefix}x": (1, 4)}, [f"{prefix}d", f"{prefix}s"])
        made.input[0].type.tensor_type.elem_type = TensorProto.INT64
        made.input[1].type.tensor_type.elem_type = made.output[0].type.tensor_type.elem_type = TensorProto.BOOL
        return made

    choice = graph([node("MatMul", "lx w", "t", name="product")], {}, ["t"])
    other = graph([node("Neg", "lx", "e")], {}, ["e"])
    chosen = node("If", "lc", "lh", name="choose", then_branch=choice, else_branch=other)
    loop = node("Loop", "n yes y0", "y1", body=body([node("Neg", "kx", "kh", name="same")], "k"))
    then = graph([loop, node("Neg", "y1", "t1", name="same")], {}, ["t1"])
    nodes = [
        node("Loop", "n yes x", "y0", name="outer", body=body([chosen], "l")),
        node("If", "yes", "y", then_branch=then, else_branch=graph([node("Neg", "y0", "e1")], {}, ["e1"])),
    ]
    return model(graph(nodes, {"x": (1, 4)}, ["y"], stored))


def test_bodies_are_graphs_and_branches_are_not() -> None:
    found = name_nodes(looped())
    assert found[("y0",)] == ("graph", "outer")
    assert found[("y0", "body", "lh", "then_branch", "t")] == ("outer/body", "choose/then_branch/product")
    assert found[("y", "then_branch", "y1")] == ("graph", "node/then_branch/node")
    assert found[("y", "then_branch", "y1", "body", "ks")][0] == "node/then_branch/node/body"


def test_functions_are_graphs() -> None:
    found = name_nodes(in_functions())
    assert found[("", "local", "Linear", "", "d")] == ("[function]local::Linear", "node")
    assert not any(len(call) > 5 for call in found)


@pytest.mark.parametrize("make", [lambda: mlp()[0], branches, recurrent, in_functions, looped])
def test_adapter(make: object, tmp_path: Path) -> None:
    adapter = pytest.importorskip("model_explorer_onnx.main", reason="pip install model-explorer-onnx")
    content = make()  # type: ignore[operator]
    shown = adapter.ONNXAdapter().convert(str(saved(content, tmp_path)), {})["graphs"]
    assert {*name_nodes(content).values()} <= {(each.id, found.id) for each in shown for found in each.nodes}


def test_graph_without_a_name() -> None:
    content = model(graph([node("MatMul", "x w", "y")], {"x": (1, 4)}, ["y"]))
    content.graph.initializer.append(tensor("w", np.ones((4, 4), np.float32)))
    content.graph.ClearField("name")
    assert name_nodes(content) == {("y",): ("<main>", "node")}
