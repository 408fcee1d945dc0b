"""Small ONNX files that ask for more than any machine has: of memory, of time, or of nesting. For tests only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from tests.load.onnx.models import graph, model, tensor

Builder = Callable[[], ModelProto]
LOCAL = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def ints(*values: int) -> NDArray[np.int64]:
    return np.asarray(values, np.int64)


def built(nodes: list[NodeProto], more: dict[str, NDArray[Any]] | None = None, **options: Any) -> ModelProto:
    """A small network beside the nodes, which get `x`, `w` and numbers and must not make `y`."""
    stored: dict[str, NDArray[Any]] = {"w": np.ones((4, 4), np.float32), **(more or {})}
    nodes = [*nodes, node("MatMul", "x w", "y")]
    return model(graph(nodes, options.get("inputs", {"x": (1, 4)}), ["y"], stored), options.get("functions", ()))


def doubling(op: str, count: int = 60, start: NDArray[Any] | None = None, **attributes: Any) -> ModelProto:
    """Each value is made of the one before it, twice."""
    nodes = [node(op, f"v{i} v{i}", f"v{i + 1}", **attributes) for i in range(count)]
    return built(nodes, {"v0": np.ones((2, 2), np.float32) if start is None else start})


def concat() -> ModelProto:
    return doubling("Concat", axis=0)


def concat_of_weights() -> ModelProto:
    nodes = [node("Concat", "w w", "v0", axis=0)]
    nodes += [node("Concat", f"v{i} v{i}", f"v{i + 1}", axis=0) for i in range(60)]
    return built(nodes)


def concat_of_integers() -> ModelProto:
    """Shape inference with data propagation follows these too, and the unknown operator asks for it."""
    nodes = [node("Unknown", "x", "u", domain="local")]
    nodes += [node("Concat", f"v{i} v{i}", f"v{i + 1}", axis=0) for i in range(60)]
    return built(nodes, {"v0": ints(1, 1)})


def tiles() -> ModelProto:
    nodes = [node("Tile", f"v{i} two", f"v{i + 1}") for i in range(60)]
    return built(nodes, {"v0": np.ones((2, 2), np.float32), "two": ints(2, 2)})


def tiles_of_a_weight() -> ModelProto:
    return built([node("Identity", "w", "v0"), *(node("Tile", f"v{i} two", f"v{i + 1}") for i in range(60))],
                 {"two": ints(2, 2)})  # fmt: skip


def expand() -> ModelProto:
    return built([node("Expand", "w shape", "big")], {"shape": ints(10**5, 10**5, 4, 4)})


def constant_of_shape() -> ModelProto:
    return built([node("ConstantOfShape", "shape", "big")], {"shape": ints(10**6, 10**6)})


def many_constants() -> ModelProto:
    nodes = [node("ConstantOfShape", "shape", f"big{i}") for i in range(2000)]
    return built(nodes, {"shape": ints(1 << 20)})


def pad() -> ModelProto:
    return built([node("Pad", "w pads", "big")], {"pads": ints(10**6, 10**6, 10**6, 10**6)})


def pad_live() -> ModelProto:
    return built([node("Pad", "x pads", "p"), node("ReduceSum", "p", "s")], {"pads": ints(0, 0, 0, 10**11)})


def resize() -> ModelProto:
    resized = helper.make_node("Resize", ["v0", "", "scales"], ["big"])
    return built(
        [resized], {"v0": np.ones((1, 1, 4, 4), np.float32), "scales": np.asarray([1, 1, 1e6, 1e6], np.float32)}
    )


def resize_live() -> ModelProto:
    resized = helper.make_node("Resize", ["i", "", "scales"], ["big"])
    nodes = [node("Reshape", "x shape", "i"), resized]
    more = {"shape": ints(1, 1, 2, 2), "scales": np.asarray([1, 1, 1e9, 1e9], np.float32)}
    return built(nodes, more)


def slow_resize() -> ModelProto:
    resized = helper.make_node("Resize", ["v0", "", "scales"], ["big"], mode="cubic")
    more = {"v0": np.ones((1, 1, 64, 64), np.float32), "scales": np.asarray([1, 1, 50, 50], np.float32)}
    return built([resized], more)


def range_() -> ModelProto:
    return built([node("Range", "a b c", "big")], {"a": np.asarray(0.0), "b": np.asarray(1e12), "c": np.asarray(0.5)})


def outer_product() -> ModelProto:
    return built([node("MatMul", "a b", "big")],
                 {"a": np.ones((60_000, 1), np.int8), "b": np.ones((1, 60_000), np.int8)})  # fmt: skip


def broadcast() -> ModelProto:
    more = {"a": np.ones((400, 1, 1, 1), np.int8), "b": np.ones((400, 1, 1), np.int8)}
    more |= {"c": np.ones((400, 1), np.int8), "d": np.ones(400, np.int8)}
    return built([node("Add", "a b", "e"), node("Add", "c d", "f"), node("Add", "e f", "big")], more)


def einsum() -> ModelProto:
    more = {name: np.ones(20_000, np.float32) for name in "abc"}
    return built([node("Einsum", "a b c", "s", equation="i,j,k->i")], more)


def one_hot() -> ModelProto:
    more: dict[str, NDArray[Any]] = {"i": np.zeros(100_000, np.int64), "d": ints(10**6), "v": np.zeros(2, np.int8)}
    return built([node("OneHot", "i d v", "big")], more)


def eye_like() -> ModelProto:
    nodes = [node("ReduceSum", "x", "s"), node("Expand", "s shape", "e"), node("EyeLike", "e", "big")]
    return built(nodes, {"shape": ints(120_000, 120_000)})


def gather() -> ModelProto:
    more = {"rows": np.ones((1, 60_000), np.int8), "ids": np.zeros(60_000, np.int64)}
    return built([node("Gather", "rows ids", "big", axis=0)], more)


def window() -> ModelProto:
    return built([node("HannWindow", "n", "big")], {"n": np.asarray(10**12)})


def pooled() -> ModelProto:
    pool = node("MaxPool", "i", "p", kernel_shape=[10**9], pads=[10**9 - 1, 10**9 - 1])
    return built([node("Reshape", "x shape", "i"), pool], {"shape": ints(1, 1, 4)})


def transposed() -> ModelProto:
    up = node("ConvTranspose", "i k", "p", strides=[10**9], kernel_shape=[1])
    return built([node("Reshape", "x shape", "i"), up], {"shape": ints(1, 1, 4), "k": np.ones((1, 1, 1), np.float32)})


def padded_convolution() -> ModelProto:
    conv = node("Conv", "i k", "p", pads=[10**10, 10**10])
    return built([node("Reshape", "x shape", "i"), conv], {"shape": ints(1, 1, 4), "k": np.ones((1, 1, 1), np.float32)})


def random_shape() -> ModelProto:
    return built([node("RandomNormal", "", "big", shape=[10**6, 10**6]), node("ReduceSum", "big", "s")])


def huge_input() -> ModelProto:
    return built([node("ReduceSum", "z", "s")], inputs={"x": (1, 4), "z": (10**9, 10**9)})


def declared() -> ModelProto:
    """An unknown operator whose result is declared larger than anything."""
    content = built([node("Unknown", "x", "u", domain="local"), node("ReduceSum", "u", "s")])
    content.graph.value_info.append(helper.make_tensor_value_info("u", TensorProto.FLOAT, [10**9, 10**9]))
    return content


def functions(depth: int, calls: int) -> list[Any]:
    """A function that calls the next one `calls` times, and so on."""
    made = []
    for i in range(depth):
        body = [node(f"F{i + 1}", "a", f"t{j}", domain="local") for j in range(calls)] if i < depth - 1 else []
        body = body or [node("Neg", "a", "t0")]
        made.append(helper.make_function("local", f"F{i}", ["a"], ["t0"], body, LOCAL))
    return made


def called_twice() -> ModelProto:
    return built([node("F0", "x", "f", domain="local")], functions=functions(40, 2))


def called_twice_on_constants() -> ModelProto:
    return built([node("F0", "w", "f", domain="local")], functions=functions(40, 2))


def called_twice_beside_an_unknown_operator() -> ModelProto:
    nodes = [node("Unknown", "x", "u", domain="local"), node("F0", "x", "f", domain="local")]
    return built(nodes, functions=functions(40, 2))


def deep_functions() -> ModelProto:
    return built([node("F0", "x", "f", domain="local")], functions=functions(3000, 1))


def deep_functions_beside_an_unknown_operator() -> ModelProto:
    nodes = [node("Unknown", "x", "u", domain="local"), node("F0", "x", "f", domain="local")]
    return built(nodes, functions=functions(3000, 1))


def concat_in_functions() -> ModelProto:
    """Each function joins its input with itself and calls the next one."""
    made = []
    for i in range(40):
        body = [node("Concat", "a a", "b", axis=0), node(f"F{i + 1}", "b", "t0", domain="local")]
        body = body if i < 39 else [node("Concat", "a a", "t0", axis=0)]
        made.append(helper.make_function("local", f"F{i}", ["a"], ["t0"], body, LOCAL))
    nodes = [node("Unknown", "x", "u", domain="local"), node("F0", "v", "f", domain="local")]
    return built(nodes, {"v": ints(1, 2)}, functions=made)


def calls_itself() -> ModelProto:
    body = [node("F", "a", "b", domain="local")]
    return built([node("F", "x", "f", domain="local")],
                 functions=[helper.make_function("local", "F", ["a"], ["b"], body, LOCAL)])  # fmt: skip


def loop_body(inner: list[NodeProto], out: str) -> GraphProto:
    kinds = [("i", TensorProto.INT64), ("c", TensorProto.BOOL), ("s", TensorProto.FLOAT)]
    inputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in kinds]
    outputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("c", TensorProto.BOOL), (out, 1))]
    return helper.make_graph(inner, "body", inputs, outputs)


def loops() -> ModelProto:
    """Loops of 1,000 turns inside each other."""
    body = loop_body([node("Neg", "s", "t")], "t")
    for _ in range(8):
        body = loop_body([node("Loop", "n yes s", "t", body=body)], "t")
    nodes = [node("Loop", "n yes z", "l", body=body)]
    return built(nodes, {"n": np.asarray(1000), "yes": np.asarray(True), "z": np.zeros((), np.float32)})


def live_loops() -> ModelProto:
    body = loop_body([node("Neg", "s", "t")], "t")
    for _ in range(8):
        body = loop_body([node("Loop", "n yes s", "t", body=body)], "t")
    nodes = [node("ReduceSum", "x", "z", keepdims=0), node("Loop", "n yes z", "l", body=body)]
    return built(nodes, {"n": np.asarray(1000), "yes": np.asarray(True)})


def growing_loop() -> ModelProto:
    """A state that doubles in every turn."""
    body = loop_body([node("Concat", "s s", "t", axis=0)], "t")
    nodes = [node("Loop", "n yes z", "l", body=body)]
    return built(nodes, {"n": np.asarray(1000), "yes": np.asarray(True), "z": np.zeros(2, np.float32)})


def branches() -> ModelProto:
    """Both branches of a condition that is not known, 20 levels deep."""

    def branch(level: int) -> GraphProto:
        if level == 0:
            return graph([node("Identity", "x", "r0")], {}, ["r0"])
        inner = node("If", "yes", f"r{level}", then_branch=branch(level - 1), else_branch=branch(level - 1))
        return graph([inner], {}, [f"r{level}"])

    return built([node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "yes", to=9),
                  node("If", "yes", "r", then_branch=branch(9), else_branch=branch(9))])  # fmt: skip


def pending() -> ModelProto:
    """Every value is needed twice by the next, and a weight of this size is not held."""
    nodes = [node("Add", f"v{i} v{i}", f"v{i + 1}") for i in range(200)]
    nodes += [node("Transpose", "v200", "t"), node("MatMul", "z t", "q")]
    return built(nodes, {"v0": np.ones((300, 300), np.float32)}, inputs={"x": (1, 4), "z": (1, 300)})


def long_chain() -> ModelProto:
    nodes = [node("Neg", f"v{i}", f"v{i + 1}") for i in range(8000)]
    nodes += [node("MatMul", "x v8000", "q")]
    return built(nodes, {"v0": np.ones((4, 4), np.float32)})


def many_masks() -> ModelProto:
    nodes = [node("Mul", f"v{i} m", f"v{i + 1}") for i in range(8000)]
    nodes += [node("MatMul", "x v8000", "q")]
    return built(nodes, {"v0": np.ones((4, 4), np.float32), "m": np.eye(4, dtype=np.float32)})


def many_branches() -> ModelProto:
    then, other = (graph([node("Neg", "x", "b")], {}, ["b"]) for _ in range(2))
    return built([node("If", "yes", f"v{i}", then_branch=then, else_branch=other) for i in range(8000)],
                 {"yes": np.asarray(True)})  # fmt: skip


def sparse() -> ModelProto:
    content = built([node("Identity", "z", "i")], inputs={"x": (1, 4), "z": (1, 90_000)})
    for i in range(20):
        values, places = tensor(f"s{i}", np.ones(1, np.float32)), tensor("p", ints(5))
        content.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [90_000, 90_000]))
        content.graph.node.append(node("MatMul", f"z s{i}", f"q{i}"))
    return content


def regex() -> ModelProto:
    pattern = node("RegexFullMatch", "text", "m", pattern="(a|a)*(a|a)*(a|a)*b")
    return _text([pattern], "a" * 100_000)


def split_text() -> ModelProto:
    nodes = [node("StringSplit", "text", "parts n", delimiter=" ")]
    return _text(nodes, " ".join("a" * 1 for _ in range(200_000)))


def joined_text() -> ModelProto:
    return _text([node("Identity", "text", "v0"),
                  *(node("StringConcat", f"v{i} v{i}", f"v{i + 1}") for i in range(60))], "ab")  # fmt: skip


def _text(nodes: list[NodeProto], text: str) -> ModelProto:
    content = built(nodes)
    content.graph.initializer.append(helper.make_tensor("text", TensorProto.STRING, [1], [text.encode()]))
    content.opset_import[0].version = 20
    return content


def many_pieces() -> ModelProto:
    nodes = [node("SplitToSequence", "z", "s"), node("SequenceLength", "s", "n")]
    return built(nodes, inputs={"x": (1, 4), "z": (1 << 25, 1)})


def determinants() -> ModelProto:
    return built([node("ConstantOfShape", "shape", "m"), node("Det", "m", "d")], {"shape": ints(8000, 8000)})


def spectrum() -> ModelProto:
    nodes = [node("Reshape", "x shape", "i"), node("DFT", "i n", "f", axis=1)]
    return built(nodes, {"shape": ints(1, 4, 1), "n": np.asarray(10**11)})


HOSTILE: list[Builder] = [
    concat, concat_of_weights, concat_of_integers, tiles, tiles_of_a_weight, expand, constant_of_shape,
    many_constants, pad, pad_live, resize, resize_live, slow_resize, range_, outer_product, broadcast, einsum, one_hot,
    eye_like, gather, window, pooled, transposed, padded_convolution, random_shape, huge_input, declared, called_twice,
    called_twice_on_constants, called_twice_beside_an_unknown_operator, deep_functions,
    deep_functions_beside_an_unknown_operator, concat_in_functions, calls_itself, loops, live_loops, growing_loop, branches, pending, long_chain, many_masks, many_branches, sparse, regex, split_text, joined_text,
    many_pieces, determinants, spectrum,
]  # fmt: skip
