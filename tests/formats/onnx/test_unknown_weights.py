"""Weights that pass through unknown operators are all active."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from tests.formats.onnx.hostile.build import ints, node
from tests.formats.onnx.models import graph, masks, model

WEIGHT = np.ones((4, 3), np.float32)
Stored = dict[str, NDArray[Any]]


def unknown(inputs: str, output: str) -> NodeProto:
    return node("Quant", inputs, output, domain="my.ops")


def network(nodes: list[NodeProto], *shape: int, functions: Any = (), **stored: NDArray[Any]) -> ModelProto:
    every: Stored = {"w": WEIGHT, **stored}
    return model(graph(nodes, {"x": shape or (1, 4)}, ["y"], every), functions)


def by_matmul() -> ModelProto:
    return network([unknown("w", "q"), node("MatMul", "x q", "y")])


def by_gemm() -> ModelProto:
    return network([unknown("w", "q"), node("Gemm", "x q", "y")])


def by_einsum() -> ModelProto:
    return network([unknown("w", "q"), node("Einsum", "x q", "y", equation="bi,ij->bj")])


def by_convolution() -> ModelProto:
    return network([unknown("w", "q"), node("Conv", "x q", "y")], 1, 4, 5, 5, w=WEIGHT.reshape(3, 4, 1, 1))


def by_rnn() -> ModelProto:
    nodes = [unknown("w", "q"), unknown("r", "s"), node("RNN", "x q s", "y", hidden_size=3)]
    return network(nodes, 2, 1, 4, w=WEIGHT.reshape(1, 3, 4), r=np.ones((1, 3, 3), np.float32))


def in_a_row() -> ModelProto:
    return network([unknown("w", "a"), unknown("a", "b"), unknown("b", "q"), node("MatMul", "x q", "y")])


def with_known_operators_between() -> ModelProto:
    nodes = [
        node("Transpose", "w", "a"), unknown("a", "b"), node("Transpose", "b", "c"), node("Mul", "c two", "d"),
        unknown("d", "e"), node("Reshape", "e shape", "q"), node("MatMul", "x q", "y"),
    ]  # fmt: skip
    return network(nodes, two=np.asarray(2, np.float32), shape=ints(4, 3))


def branch(output: str, weight: str = "w") -> GraphProto:
    return graph([unknown(weight, "q"), node("MatMul", "x q", output)], {}, [output], {weight: WEIGHT})


def in_branches() -> ModelProto:
    nodes = [
        node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "c", to=TensorProto.BOOL),
        node("If", "c", "y", then_branch=branch("a", "u"), else_branch=branch("b", "v")),
    ]  # fmt: skip
    return model(graph(nodes, {"x": (1, 4)}, ["y"]))


def in_a_function() -> ModelProto:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my.ops", 1)]
    body = [unknown("v", "q"), node("MatMul", "x q", "y")]
    function = helper.make_function("local", "F", ["x", "v"], ["y"], body, opsets)
    return network([node("F", "x w", "y", domain="local")], functions=[function])


def in_a_loop(turns: int = 3) -> ModelProto:
    kinds = [("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("s", TensorProto.FLOAT, [1, 4])]
    inputs = [helper.make_tensor_value_info(*kind) for kind in kinds]
    outputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("t", 1, [1, 4])]
    body = helper.make_graph([unknown("w", "q"), node("MatMul", "s q", "t")], "body", inputs, outputs)
    more: Stored = {"w": np.ones((4, 4), np.float32), "n": np.asarray(turns), "yes": np.asarray(True)}
    return network([node("Loop", "n yes x", "y", body=body)], **more)


def in_a_long_loop() -> ModelProto:
    return in_a_loop(100_000)


def in_graphs_of_an_unknown_operator() -> ModelProto:
    odd = helper.make_node("Odd", ["x"], ["y"], domain="my.ops", bodies=[branch("a", "u"), branch("b", "v")])
    return model(graph([odd], {"x": (1, 4)}, ["y"]))


def nested_in_an_unknown_operator() -> ModelProto:
    value = helper.make_tensor("", TensorProto.FLOAT, [2, 2], [1, 2, 3, 4])
    choice = node("If", "yes", "z", then_branch=branch("a", "u"), else_branch=branch("b", "v"))
    body = graph([helper.make_node("Constant", [], ["k"], value=value), choice], {}, ["z"], {"yes": np.asarray(True)})
    return model(graph([helper.make_node("Odd", ["x"], ["y"], domain="my.ops", body=body)], {"x": (1, 4)}, ["y"]))


def through_a_product() -> ModelProto:
    nodes = [node("MatMul", "w v", "p"), unknown("p", "q"), node("MatMul", "x q", "y")]
    return network(nodes, v=np.ones((3, 3), np.float32))


FORMS = [
    by_matmul, by_gemm, by_einsum, by_convolution, by_rnn, in_a_row, with_known_operators_between, in_branches,
    in_a_function, in_a_loop, in_a_long_loop, in_graphs_of_an_unknown_operator, nested_in_an_unknown_operator,
    through_a_product,
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form.__name__))
def test_all_weights_are_active(form: Any) -> None:
    found = masks(form(), "active")
    assert found
    for name, active in found.items():
        assert active.all(), name


def test_weights_that_no_output_needs_are_inactive() -> None:
    content = by_matmul()
    content.graph.node[-1].output[0] = "z"
    content.graph.node.append(node("Relu", "x", "y"))
    assert not masks(content, "active")["w"].any()
