"""Nodes in any order, and functions with subgraphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import GraphProto, ModelProto, TensorProto, helper

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.onnx.parse import open_model
from effsparse_cli.formats.options import LoadOptions
from tests.formats.onnx.hostile.build import node
from tests.formats.onnx.models import Floats, graph, masks, mlp, model, read, sparse_array, tensor


def reverse(owner: GraphProto) -> None:
    nodes = list(owner.node)
    del owner.node[:]
    owner.node.extend(nodes[::-1])


def saved(content: ModelProto, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(content.SerializeToString())
    return path


def opened(content: ModelProto, folder: Path) -> ModelProto:
    return open_model(saved(content, folder))


def test_nodes_are_sorted(tmp_path: Path) -> None:
    content, _ = mlp()
    expected = masks(content, "active")
    reverse(content.graph)
    onnxruntime.InferenceSession(content.SerializeToString(), providers=["CPUExecutionProvider"])
    found = masks(opened(content, tmp_path), "active")
    for name, active in expected.items():
        assert (found[name] == active).all()


def test_sorted_nodes_stay(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "b"), node("Neg", "x", "a"), node("Add", "a b", "c"), node("MatMul", "c w", "y")]
    content = model(graph(nodes, {"x": (1, 4)}, ["y"], {"w": np.ones((4, 4), np.float32)}))
    assert list(opened(content, tmp_path).graph.node) == nodes


def branch(output: str) -> GraphProto:
    nodes = [node("MatMul", "h w", output), node("Relu", "g", "h"), node("Neg", "x", "g")]
    return graph(nodes, {}, [output])


def test_subgraphs_are_sorted(tmp_path: Path) -> None:
    nodes = [
        node("If", "yes", "y", then_branch=branch("a"), else_branch=branch("b")),
        node("Cast", "m", "yes", to=TensorProto.BOOL),
        node("ReduceMax", "x", "m", keepdims=0),
    ]
    content = model(graph(nodes, {"x": (1, 4)}, ["y"], {"w": np.ones((4, 4), np.float32)}))
    assert masks(opened(content, tmp_path), "active")["w"].all()


def test_outer_values_of_a_branch_come_first(tmp_path: Path) -> None:
    inner = graph([node("MatMul", "late w", "a")], {}, ["a"])
    nodes = [node("If", "yes", "y", then_branch=inner, else_branch=inner), node("Neg", "x", "late")]
    stored = {"w": np.ones((4, 4), np.float32), "yes": np.asarray(True)}
    content = model(graph(nodes, {"x": (1, 4)}, ["y"], stored))
    assert masks(opened(content, tmp_path), "active")["w"].all()


def function(weight: Floats) -> ModelProto:
    """A function with an If, which calls another function; the nodes of both are reversed."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    constant = helper.make_node("Constant", [], ["w"], value=tensor("", weight))
    chosen = helper.make_node("Constant", [], ["yes"], value=tensor("", np.asarray(True)))
    then = graph([node("Linear", "n", "t", domain="local"), node("Neg", "a", "n")], {}, ["t"])
    other = graph([node("Linear", "a", "e", domain="local")], {}, ["e"])
    outer = [node("If", "yes", "b", then_branch=then, else_branch=other), chosen]
    functions = [
        helper.make_function("local", "Outer", ["a"], ["b"], outer, opsets),
        helper.make_function("local", "Linear", ["c"], ["d"], [node("MatMul", "c w", "d"), constant], opsets),
    ]
    return model(graph([node("Outer", "x", "y", domain="local")], {"x": (1, 4)}, ["y"]), functions)


def test_function_with_subgraph(tmp_path: Path) -> None:
    weight = sparse_array(3, 4, 5)
    found = masks(opened(function(weight), tmp_path), "active")
    assert (found["w"] == (weight != 0)).all()


def test_attributes_of_a_call_reach_subgraphs(tmp_path: Path) -> None:
    """The call's slope is that of the LeakyRelu two subgraphs below."""
    relu = node("HardSigmoid", "a", "t")
    relu.attribute.add(name="beta", ref_attr_name="offset", type=1)
    inner = graph([relu], {}, ["t"])
    body = [
        helper.make_node("Constant", [], ["yes"], value=tensor("", np.asarray(True))),
        node("If", "yes", "b", then_branch=inner, else_branch=inner),
    ]
    gate = helper.make_function("local", "Gate", ["a"], ["b"], body, [helper.make_opsetid("", 18)], ["offset"])
    stored = {"w": np.asarray([[1, 0]] * 4, np.float32), "v": np.ones((4, 2), np.float32)}
    for offset, alive in ((0.5, True), (0.0, False)):
        nodes = [
            node("MatMul", "x w", "h"),
            node("Gate", "h", "g", domain="local", offset=offset),
            node("MatMul", "x v", "k"),
            node("Mul", "g k", "y"),
        ]
        content = opened(model(graph(nodes, {"x": (1, 4)}, ["y"], stored), [gate]), tmp_path)
        assert masks(content, "active")["v"][:, 1].any() == alive


def test_tensor_as_attribute_of_a_call(tmp_path: Path) -> None:
    """Each call has its own weight."""
    constant = node("Constant", "", "w")
    constant.attribute.add(name="value", ref_attr_name="weight", type=4)
    body = [constant, node("MatMul", "a w", "b")]
    linear = helper.make_function("local", "Linear", ["a"], ["b"], body, [helper.make_opsetid("", 18)], ["weight"])
    first, second = sparse_array(1, 4, 6), sparse_array(2, 6, 3)
    nodes = [
        node("Linear", "x", "h", domain="local", weight=tensor("", first)),
        node("Linear", "h", "y", domain="local", weight=tensor("", second)),
    ]
    found = masks(opened(model(graph(nodes, {"x": (1, 4)}, ["y"]), [linear]), tmp_path), "kept")
    assert sorted(kept.sum() for kept in found.values()) == sorted([(first != 0).sum(), (second != 0).sum()])


def test_cycle_in_a_function(tmp_path: Path) -> None:
    body = [node("Add", "a c", "b"), node("Neg", "b", "c")]
    looped = helper.make_function("local", "F", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    content = model(graph([node("F", "x", "y", domain="local")], {"x": (1, 4)}, ["y"]), [looped])
    with pytest.raises(LoadError, match="form a cycle"):
        opened(content, tmp_path)


def test_function_with_undefined_value(tmp_path: Path) -> None:
    body = [node("Add", "a nothing", "b")]
    lacking = helper.make_function("local", "F", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    content = model(graph([node("F", "x", "y", domain="local")], {"x": (1, 4)}, ["y"]), [lacking])
    with pytest.raises(LoadError, match="'nothing'"):
        read(saved(content, tmp_path), LoadOptions())


def test_ignored_branch_leaves_no_nodes(tmp_path: Path) -> None:
    """Both branches join the same values; the first one does not accept this input."""
    then = graph([node("Concat", "x x", "j", axis=0), node("Reshape", "j shape", "t")], {}, ["t"])
    other = graph([node("Neg", "x", "n"), node("Concat", "x x", "k", axis=0), node("MatMul", "k w", "e")], {}, ["e"])
    nodes = [
        node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "c", to=TensorProto.BOOL),
        node("If", "c", "y", then_branch=then, else_branch=other),
    ]  # fmt: skip
    stored = {"w": np.ones((4, 3), np.float32), "shape": np.asarray([7, 7])}
    assert masks(opened(model(graph(nodes, {"x": (1, 4)}, ["y"], stored)), tmp_path), "active")["w"].all()
