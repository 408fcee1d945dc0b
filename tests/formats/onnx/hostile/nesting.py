"""Files that take too long: by calls, loops, branches, chains and text."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from tests.formats.onnx.hostile.build import LOCAL, Stored, built, hostile, ints, node
from tests.formats.onnx.models import graph, tensor


def functions(depth: int, calls: int) -> list[Any]:
    """Return functions, each of which calls the next one `calls` times."""
    made = []
    for i in range(depth):
        body = [node(f"F{i + 1}", "a", f"t{j}", domain="local") for j in range(calls)] if i < depth - 1 else []
        body = body or [node("Neg", "a", "t0")]
        made.append(helper.make_function("local", f"F{i}", ["a"], ["t0"], body, LOCAL))
    return made


@hostile
def called_twice() -> ModelProto:
    return built([node("F0", "x", "f", domain="local")], functions=functions(40, 2))


@hostile
def called_twice_on_constants() -> ModelProto:
    return built([node("F0", "w", "f", domain="local")], functions=functions(40, 2))


@hostile
def called_twice_beside_an_unknown_operator() -> ModelProto:
    nodes = [node("Unknown", "x", "u", domain="local"), node("F0", "x", "f", domain="local")]
    return built(nodes, functions=functions(40, 2))


@hostile
def deep_functions() -> ModelProto:
    return built([node("F0", "x", "f", domain="local")], functions=functions(3000, 1))


@hostile
def deep_functions_beside_an_unknown_operator() -> ModelProto:
    nodes = [node("Unknown", "x", "u", domain="local"), node("F0", "x", "f", domain="local")]
    return built(nodes, functions=functions(3000, 1))


@hostile
def concat_in_functions() -> ModelProto:
    """Each function concatenates its input with itself and calls the next one."""
    made = []
    for i in range(40):
        body = [node("Concat", "a a", "b", axis=0), node(f"F{i + 1}", "b", "t0", domain="local")]
        body = body if i < 39 else [node("Concat", "a a", "t0", axis=0)]
        made.append(helper.make_function("local", f"F{i}", ["a"], ["t0"], body, LOCAL))
    nodes = [node("Unknown", "x", "u", domain="local"), node("F0", "v", "f", domain="local")]
    return built(nodes, {"v": ints(1, 2)}, functions=made)


@hostile
def calls_itself() -> ModelProto:
    body = [node("F", "a", "b", domain="local")]
    return built([node("F", "x", "f", domain="local")],
                 functions=[helper.make_function("local", "F", ["a"], ["b"], body, LOCAL)])  # fmt: skip


def loop_body(inner: list[NodeProto], out: str) -> GraphProto:
    kinds = [("i", TensorProto.INT64), ("c", TensorProto.BOOL), ("s", TensorProto.FLOAT)]
    inputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in kinds]
    outputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("c", TensorProto.BOOL), (out, 1))]
    return helper.make_graph(inner, "body", inputs, outputs)


@hostile
def loops() -> ModelProto:
    """Nested loops of 1,000 iterations."""
    body = loop_body([node("Neg", "s", "t")], "t")
    for _ in range(8):
        body = loop_body([node("Loop", "n yes s", "t", body=body)], "t")
    nodes = [node("Loop", "n yes z", "l", body=body)]
    return built(nodes, {"n": np.asarray(1000), "yes": np.asarray(True), "z": np.zeros((), np.float32)})


@hostile
def live_loops() -> ModelProto:
    body = loop_body([node("Neg", "s", "t")], "t")
    for _ in range(8):
        body = loop_body([node("Loop", "n yes s", "t", body=body)], "t")
    nodes = [node("ReduceSum", "x", "z", keepdims=0), node("Loop", "n yes z", "l", body=body)]
    return built(nodes, {"n": np.asarray(1000), "yes": np.asarray(True)})


@hostile
def growing_loop() -> ModelProto:
    """A state that doubles in every iteration."""
    body = loop_body([node("Concat", "s s", "t", axis=0)], "t")
    nodes = [node("Loop", "n yes z", "l", body=body)]
    return built(nodes, {"n": np.asarray(1000), "yes": np.asarray(True), "z": np.zeros(2, np.float32)})


@hostile
def stacked_loop() -> ModelProto:
    """Every iteration returns the same large constant."""
    body = loop_body([node("Identity", "s", "t"), node("Identity", "big", "u")], "t")
    body.output.append(helper.make_tensor_value_info("u", TensorProto.FLOAT, None))
    nodes = [node("ConstantOfShape", "shape", "big"), node("Loop", "n yes z", "l m", body=body)]
    more: Stored = {"n": np.asarray(1000), "yes": np.asarray(True), "shape": ints(1 << 23)}
    return built(nodes, more | {"z": np.zeros((), np.float32)})


@hostile
def joined_sequence() -> ModelProto:
    nodes = [node("ConstantOfShape", "shape", "big"), node("SequenceConstruct", "big " * 1000, "s")]
    return built([*nodes, node("ConcatFromSequence", "s", "all", axis=0)], {"shape": ints(1 << 23)})


@hostile
def eyes() -> ModelProto:
    nodes = [node("ReduceSum", "x", "s"), node("Expand", "s shape", "e")]
    return built([*nodes, *(node("EyeLike", "e", f"i{i}") for i in range(1000))], {"shape": ints(5000, 5000)})


@hostile
def branches() -> ModelProto:
    """Nested branches with unknown conditions."""

    def branch(level: int) -> GraphProto:
        if level == 0:
            return graph([node("Identity", "x", "r0")], {}, ["r0"])
        inner = node("If", "yes", f"r{level}", then_branch=branch(level - 1), else_branch=branch(level - 1))
        return graph([inner], {}, [f"r{level}"])

    return built([node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "yes", to=9),
                  node("If", "yes", "r", then_branch=branch(7), else_branch=branch(7))])  # fmt: skip


@hostile
def pending() -> ModelProto:
    """Every value is used twice by the next, and is too large to be held."""
    nodes = [node("Add", f"v{i} v{i}", f"v{i + 1}") for i in range(60)]
    nodes += [node("Transpose", "v60", "t"), node("MatMul", "z t", "q")]
    return built(nodes, {"v0": np.ones((300, 300), np.float32)}, inputs={"x": (1, 4), "z": (1, 300)})


@hostile
def long_chain() -> ModelProto:
    nodes = [node("Neg", f"v{i}", f"v{i + 1}") for i in range(1500)]
    nodes += [node("MatMul", "x v1500", "q")]
    return built(nodes, {"v0": np.ones((4, 4), np.float32)})


@hostile
def many_masks() -> ModelProto:
    nodes = [node("Mul", f"v{i} m", f"v{i + 1}") for i in range(1500)]
    nodes += [node("MatMul", "x v1500", "q")]
    return built(nodes, {"v0": np.ones((4, 4), np.float32), "m": np.eye(4, dtype=np.float32)})


@hostile
def many_branches() -> ModelProto:
    then, other = (graph([node("Neg", "x", "b")], {}, ["b"]) for _ in range(2))
    return built([node("If", "yes", f"v{i}", then_branch=then, else_branch=other) for i in range(1500)],
                 {"yes": np.asarray(True)})  # fmt: skip


@hostile
def sparse() -> ModelProto:
    content = built([node("Identity", "z", "i")], inputs={"x": (1, 4), "z": (1, 90_000)})
    for i in range(20):
        values, places = tensor(f"s{i}", np.ones(1, np.float32)), tensor("p", ints(5))
        content.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [90_000, 90_000]))
        content.graph.node.append(node("MatMul", f"z s{i}", f"q{i}"))
    return content


@hostile
def regex() -> ModelProto:
    pattern = node("RegexFullMatch", "text", "m", pattern="(a|a)*(a|a)*(a|a)*b")
    return _text([pattern], "a" * 100_000)


@hostile
def split_text() -> ModelProto:
    nodes = [node("StringSplit", "text", "parts n", delimiter=" ")]
    return _text(nodes, " ".join("a" * 1 for _ in range(200_000)))


@hostile
def joined_text() -> ModelProto:
    return _text([node("Identity", "text", "v0"),
                  *(node("StringConcat", f"v{i} v{i}", f"v{i + 1}") for i in range(60))], "ab")  # fmt: skip


def _text(nodes: list[NodeProto], text: str) -> ModelProto:
    content = built(nodes)
    content.graph.initializer.append(helper.make_tensor("text", TensorProto.STRING, [1], [text.encode()]))  # type: ignore[list-item]
    content.opset_import[0].version = 20
    return content


@hostile
def many_pieces() -> ModelProto:
    nodes = [node("SplitToSequence", "z", "s"), node("SequenceLength", "s", "n")]
    return built(nodes, inputs={"x": (1, 4), "z": (1 << 25, 1)})


@hostile
def determinants() -> ModelProto:
    return built([node("ConstantOfShape", "shape", "m"), node("Det", "m", "d")], {"shape": ints(2500, 2500)})


@hostile
def spectrum() -> ModelProto:
    nodes = [node("Reshape", "x shape", "i"), node("DFT", "i n", "f", axis=1)]
    return built(nodes, {"shape": ints(1, 4, 1), "n": np.asarray(10**11)})
