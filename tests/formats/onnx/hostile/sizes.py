"""Files that ask for too much memory."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper

from tests.formats.onnx.hostile.build import Stored, built, hostile, ints, node


@hostile
def concat() -> ModelProto:
    """Each value concatenates the previous one with itself."""
    nodes = [node("Concat", f"v{i} v{i}", f"v{i + 1}", axis=0) for i in range(60)]
    return built(nodes, {"v0": np.ones((2, 2), np.float32)})


@hostile
def concat_of_weights() -> ModelProto:
    nodes = [node("Concat", "w w", "v0", axis=0)]
    nodes += [node("Concat", f"v{i} v{i}", f"v{i + 1}", axis=0) for i in range(60)]
    return built(nodes)


@hostile
def concat_of_integers() -> ModelProto:
    """Shape inference with data propagation follows these too, and the unknown operator triggers it."""
    nodes = [node("Unknown", "x", "u", domain="local")]
    nodes += [node("Concat", f"v{i} v{i}", f"v{i + 1}", axis=0) for i in range(60)]
    return built(nodes, {"v0": ints(1, 1)})


@hostile
def tiles() -> ModelProto:
    nodes = [node("Tile", f"v{i} two", f"v{i + 1}") for i in range(60)]
    return built(nodes, {"v0": np.ones((2, 2), np.float32), "two": ints(2, 2)})


@hostile
def tiles_of_a_weight() -> ModelProto:
    return built([node("Identity", "w", "v0"), *(node("Tile", f"v{i} two", f"v{i + 1}") for i in range(60))],
                 {"two": ints(2, 2)})  # fmt: skip


@hostile
def expand() -> ModelProto:
    return built([node("Expand", "w shape", "big")], {"shape": ints(10**5, 10**5, 4, 4)})


@hostile
def constant_of_shape() -> ModelProto:
    return built([node("ConstantOfShape", "shape", "big")], {"shape": ints(10**6, 10**6)})


@hostile
def many_constants() -> ModelProto:
    nodes = [node("ConstantOfShape", "shape", f"big{i}") for i in range(2000)]
    return built(nodes, {"shape": ints(1 << 20)})


@hostile
def pad() -> ModelProto:
    return built([node("Pad", "w pads", "big")], {"pads": ints(10**6, 10**6, 10**6, 10**6)})


@hostile
def pad_live() -> ModelProto:
    return built([node("Pad", "x pads", "p"), node("ReduceSum", "p", "s")], {"pads": ints(0, 0, 0, 10**11)})


@hostile
def resize() -> ModelProto:
    resized = helper.make_node("Resize", ["v0", "", "scales"], ["big"])
    return built(
        [resized], {"v0": np.ones((1, 1, 4, 4), np.float32), "scales": np.asarray([1, 1, 1e6, 1e6], np.float32)}
    )


@hostile
def resize_live() -> ModelProto:
    resized = helper.make_node("Resize", ["i", "", "scales"], ["big"])
    nodes = [node("Reshape", "x shape", "i"), resized]
    more: Stored = {"shape": ints(1, 1, 2, 2), "scales": np.asarray([1, 1, 1e9, 1e9], np.float32)}
    return built(nodes, more)


@hostile
def slow_resize() -> ModelProto:
    resized = helper.make_node("Resize", ["v0", "", "scales"], ["big"], mode="cubic")
    more = {"v0": np.ones((1, 1, 64, 64), np.float32), "scales": np.asarray([1, 1, 50, 50], np.float32)}
    return built([resized], more)


@hostile
def range_() -> ModelProto:
    return built([node("Range", "a b c", "big")], {"a": np.asarray(0.0), "b": np.asarray(1e12), "c": np.asarray(0.5)})


@hostile
def outer_product() -> ModelProto:
    return built([node("MatMul", "a b", "big")],
                 {"a": np.ones((60_000, 1), np.int8), "b": np.ones((1, 60_000), np.int8)})  # fmt: skip


@hostile
def broadcast() -> ModelProto:
    more = {"a": np.ones((400, 1, 1, 1), np.int8), "b": np.ones((400, 1, 1), np.int8)}
    more |= {"c": np.ones((400, 1), np.int8), "d": np.ones(400, np.int8)}
    return built([node("Add", "a b", "e"), node("Add", "c d", "f"), node("Add", "e f", "big")], more)


@hostile
def einsum() -> ModelProto:
    more = {name: np.ones(20_000, np.float32) for name in "abc"}
    return built([node("Einsum", "a b c", "s", equation="i,j,k->i")], more)


@hostile
def one_hot() -> ModelProto:
    more: Stored = {"i": np.zeros(100_000, np.int64), "d": ints(10**6), "v": np.zeros(2, np.int8)}
    return built([node("OneHot", "i d v", "big")], more)


@hostile
def eye_like() -> ModelProto:
    nodes = [node("ReduceSum", "x", "s"), node("Expand", "s shape", "e"), node("EyeLike", "e", "big")]
    return built(nodes, {"shape": ints(120_000, 120_000)})


@hostile
def gather() -> ModelProto:
    more: Stored = {"rows": np.ones((1, 60_000), np.int8), "ids": np.zeros(60_000, np.int64)}
    return built([node("Gather", "rows ids", "big", axis=0)], more)


@hostile
def window() -> ModelProto:
    return built([node("HannWindow", "n", "big")], {"n": np.asarray(10**12)})


@hostile
def pooled() -> ModelProto:
    pool = node("MaxPool", "i", "p", kernel_shape=[10**9], pads=[10**9 - 1, 10**9 - 1])
    return built([node("Reshape", "x shape", "i"), pool], {"shape": ints(1, 1, 4)})


@hostile
def transposed() -> ModelProto:
    up = node("ConvTranspose", "i k", "p", strides=[10**9], kernel_shape=[1])
    return built([node("Reshape", "x shape", "i"), up], {"shape": ints(1, 1, 4), "k": np.ones((1, 1, 1), np.float32)})


@hostile
def padded_convolution() -> ModelProto:
    conv = node("Conv", "i k", "p", pads=[10**10, 10**10])
    return built([node("Reshape", "x shape", "i"), conv], {"shape": ints(1, 1, 4), "k": np.ones((1, 1, 1), np.float32)})


@hostile
def random_shape() -> ModelProto:
    return built([node("RandomNormal", "", "big", shape=[10**6, 10**6]), node("ReduceSum", "big", "s")])


@hostile
def huge_input() -> ModelProto:
    return built([node("ReduceSum", "z", "s")], inputs={"x": (1, 4), "z": (10**9, 10**9)})


@hostile
def declared() -> ModelProto:
    """An unknown operator with a huge declared result."""
    content = built([node("Unknown", "x", "u", domain="local"), node("ReduceSum", "u", "s")])
    content.graph.value_info.append(helper.make_tensor_value_info("u", TensorProto.FLOAT, [10**9, 10**9]))
    return content


@hostile
def padded_twice() -> ModelProto:
    nodes = [node("Conv", "i k", "p", pads=[3000] * 4), node("Conv", "p k", "q", pads=[3000] * 4)]
    return built(nodes, {"k": np.ones((1, 1, 3, 3), np.float32)}, inputs={"x": (1, 4), "i": (1, 1, 64, 64)})


@hostile
def huge_image() -> ModelProto:
    kernel = {"k": np.ones((1, 1, 3, 3), np.float32)}
    return built([node("Conv", "i k", "p")], kernel, inputs={"x": (1, 4), "i": (1, 1, 60_000, 60_000)})


@hostile
def long_signal() -> ModelProto:
    kernel = {"k": np.ones((1, 1, 3), np.float32)}
    return built([node("Conv", "i k", "p")], kernel, inputs={"x": (1, 4), "i": (1, 1, 10**7)})


@hostile
def running_sums() -> ModelProto:
    nodes = [node("CumSum", f"c{i} axis", f"c{i + 1}") for i in range(300)]
    return built(nodes, {"axis": np.asarray(0)}, inputs={"x": (1, 4), "c0": (1500, 4)})


@hostile
def long_sequence() -> ModelProto:
    weights = {"a": np.ones((1, 16, 4), np.float32), "b": np.ones((1, 16, 4), np.float32)}
    nodes = [node("LSTM", "i a b", "p", hidden_size=4)]
    return built(nodes, weights, inputs={"x": (1, 4), "i": (10**7, 1, 4)})
