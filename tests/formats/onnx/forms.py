"""One network in the many forms in which ONNX files store weights. For tests only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper

from tests.formats.onnx.models import Floats, graph, model, tensor

HIDDEN = helper.make_node("Relu", ["h"], ["r"])


def linear(x: str, weight: str, y: str) -> NodeProto:
    return helper.make_node("Gemm", [x, weight], [y], transB=1)


def built(nodes: list[NodeProto], stored: dict[str, NDArray[Any]], **more: Any) -> ModelProto:
    return model(graph(nodes, {"x": (1, 9)}, ["y"], stored, **more))


def as_constants(w1: Floats, w2: Floats) -> ModelProto:
    nodes = [
        helper.make_node("Constant", [], [name], value=tensor("", array))
        for name, array in (("fc1.weight", w1), ("fc2.weight", w2))
    ]
    return built([*nodes, linear("x", "fc1.weight", "h"), HIDDEN, linear("r", "fc2.weight", "y")], {})


def as_masks(w1: Floats, w2: Floats) -> ModelProto:
    """Dense weights with sparse masks."""
    random = np.random.default_rng(5)
    nodes, stored = [], {}
    for name, array in (("fc1", w1), ("fc2", w2)):
        stored[f"{name}.weight"] = random.normal(size=array.shape).astype(np.float32) + 5
        stored[f"{name}.mask"] = (array != 0).astype(np.float32)
        nodes.append(helper.make_node("Mul", [f"{name}.weight", f"{name}.mask"], [f"{name}.masked"]))
    nodes += [linear("x", "fc1.masked", "h"), HIDDEN, linear("r", "fc2.masked", "y")]
    return built(nodes, stored)


def as_boolean_masks(w1: Floats, w2: Floats) -> ModelProto:
    nodes: list[NodeProto] = []
    stored: dict[str, NDArray[Any]] = {"zero": np.zeros((), np.float32)}
    for name, array in (("fc1", w1), ("fc2", w2)):
        stored[f"{name}.weight"] = np.ones_like(array)
        stored[f"{name}.mask"] = array != 0
        nodes.append(helper.make_node("Where", [f"{name}.mask", f"{name}.weight", "zero"], [f"{name}.masked"]))
    nodes += [linear("x", "fc1.masked", "h"), HIDDEN, linear("r", "fc2.masked", "y")]
    return built(nodes, stored)


def quantized(array: Floats, zero: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return integers that are the zero point of their row exactly where there is no weight."""
    points = zero.reshape(-1, 1).astype(int)
    return np.where(array != 0, points + 7 * np.sign(array), points).astype(np.int8)


def as_qdq(w1: Floats, w2: Floats) -> ModelProto:
    nodes: list[NodeProto] = []
    stored: dict[str, NDArray[Any]] = {}
    for name, array in (("fc1", w1), ("fc2", w2)):
        zero = np.asarray(3, np.int8)
        stored |= {f"{name}.weight": quantized(array, zero), f"{name}.scale": np.asarray(0.1, np.float32)}
        stored[f"{name}.zero"] = zero
        inputs = [f"{name}.weight", f"{name}.scale", f"{name}.zero"]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}.float"]))
    return built([*nodes, linear("x", "fc1.float", "h"), HIDDEN, linear("r", "fc2.float", "y")], stored)


def as_qdq_per_channel(w1: Floats, w2: Floats) -> ModelProto:
    nodes: list[NodeProto] = []
    stored: dict[str, NDArray[Any]] = {}
    for name, array in (("fc1", w1), ("fc2", w2)):
        zero = np.arange(len(array)).astype(np.int8) - 3
        stored |= {f"{name}.weight": quantized(array, zero), f"{name}.zero": zero}
        stored[f"{name}.scale"] = np.full(len(array), 0.1, np.float32)
        inputs = [f"{name}.weight", f"{name}.scale", f"{name}.zero"]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}.float"], axis=0))
    return built([*nodes, linear("x", "fc1.float", "h"), HIDDEN, linear("r", "fc2.float", "y")], stored)


def as_integers(w1: Floats, w2: Floats) -> ModelProto:
    """QLinearMatMul, with zero points of weights and activations."""
    stored: dict[str, NDArray[Any]] = {"s": np.asarray(0.1, np.float32), "z": np.asarray(128, np.uint8)}
    stored["wz"] = np.asarray(3, np.int8)
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"])]
    for i, (name, array) in enumerate((("fc1", w1), ("fc2", w2))):
        stored[f"{name}.weight"] = quantized(array, stored["wz"])
        nodes.append(helper.make_node("Transpose", [f"{name}.weight"], [f"{name}.turned"]))
        inputs = [f"q{i}", "s", "z", f"{name}.turned", "s", "wz", "s", "z"]
        nodes.append(helper.make_node("QLinearMatMul", inputs, [f"q{i + 1}"]))
    nodes.append(helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["y"]))
    return built(nodes, stored)


def as_dynamic_integers(w1: Floats, w2: Floats) -> ModelProto:
    """The result of dynamic quantization: the zero point of the activations is computed."""
    stored: dict[str, NDArray[Any]] = {"wz": np.asarray(3, np.int8)}
    nodes: list[NodeProto] = []
    x = "x"
    for name, array in (("fc1", w1), ("fc2", w2)):
        stored[f"{name}.weight"] = quantized(array, stored["wz"])
        nodes += [
            helper.make_node("Transpose", [f"{name}.weight"], [f"{name}.turned"]),
            helper.make_node("DynamicQuantizeLinear", [x], [f"{name}.q", f"{name}.s", f"{name}.z"]),
            helper.make_node("MatMulInteger", [f"{name}.q", f"{name}.turned", f"{name}.z", "wz"], [f"{name}.i"]),
            helper.make_node("Cast", [f"{name}.i"], [f"{name}.f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{name}.f", f"{name}.s"], [f"{name}.y"]),
        ]
        x = f"{name}.y"
    return built([*nodes, helper.make_node("Identity", [x], ["y"])], stored)


def as_sparse(w1: Floats, w2: Floats, rank: int = 1) -> ModelProto:
    content = built([linear("x", "fc1.weight", "h"), HIDDEN, linear("r", "fc2.weight", "y")], {})
    for name, array in (("fc1.weight", w1), ("fc2.weight", w2)):
        places = np.flatnonzero(array) if rank == 1 else np.argwhere(array)
        values = tensor(name, array[array != 0])
        content.graph.sparse_initializer.append(
            helper.make_sparse_tensor(values, tensor(f"{name}.indices", places.astype(np.int64)), array.shape)
        )
    return content


def as_sparse_coordinates(w1: Floats, w2: Floats) -> ModelProto:
    return as_sparse(w1, w2, rank=2)


def as_sparse_constants(w1: Floats, w2: Floats) -> ModelProto:
    nodes = []
    for name, array in (("fc1.weight", w1), ("fc2.weight", w2)):
        places = tensor("", np.flatnonzero(array).astype(np.int64))
        value = helper.make_sparse_tensor(tensor("", array[array != 0]), places, array.shape)
        nodes.append(helper.make_node("Constant", [], [name], sparse_value=value))
    return built([*nodes, linear("x", "fc1.weight", "h"), HIDDEN, linear("r", "fc2.weight", "y")], {})


def behind_chains(w1: Floats, w2: Floats) -> ModelProto:
    """One weight is stored in half precision, in another shape and transposed; the other has an axis added and
    removed."""
    stored: dict[str, NDArray[Any]] = {"fc1.weight": w1.astype(np.float16).reshape(3, -1), "fc2.weight": w2}
    stored["shape"] = np.asarray([12, 9], np.int64)
    stored["one"] = np.asarray([1], np.int64)
    nodes = [
        helper.make_node("Cast", ["fc1.weight"], ["c1"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["c1", "shape"], ["c2"]),
        helper.make_node("Transpose", ["c2"], ["c3"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "c3"], ["h"]),
        HIDDEN,
        helper.make_node("Identity", ["fc2.weight"], ["d1"]),
        helper.make_node("Unsqueeze", ["d1", "one"], ["d2"]),
        helper.make_node("Squeeze", ["d2", "one"], ["d3"]),
        linear("r", "d3", "y"),
    ]
    return built(nodes, stored)


def in_parts(w1: Floats, w2: Floats) -> ModelProto:
    """The first weight is concatenated from two slices of itself."""
    stored: dict[str, NDArray[Any]] = {"fc1.weight": w1, "fc2.weight": w2}
    stored |= {"zero": np.asarray([0], np.int64), "four": np.asarray([4], np.int64), "end": np.asarray([12], np.int64)}
    nodes = [
        helper.make_node("Slice", ["fc1.weight", "zero", "four", "zero"], ["a"]),
        helper.make_node("Slice", ["fc1.weight", "four", "end", "zero"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["joined"], axis=0),
        linear("x", "joined", "h"),
        HIDDEN,
        linear("r", "fc2.weight", "y"),
    ]
    return built(nodes, stored)


def in_a_branch(w1: Floats, w2: Floats) -> ModelProto:
    then = graph([linear("x", "fc1.weight", "t")], {}, ["t"], {"fc1.weight": w1})
    other = graph([helper.make_node("Neg", ["h0"], ["e"])], {}, ["e"])
    stored = {"fc2.weight": w2, "yes": np.asarray(True), "h0": np.zeros((1, 12), np.float32)}
    nodes = [
        helper.make_node("If", ["yes"], ["h"], then_branch=then, else_branch=other),
        HIDDEN,
        linear("r", "fc2.weight", "y"),
    ]
    return built(nodes, stored)


def in_a_function(w1: Floats, w2: Floats) -> ModelProto:
    body = [
        helper.make_node("Constant", [], ["fc1.weight"], value=tensor("", w1)),
        linear("a", "fc1.weight", "b"),
    ]
    function = helper.make_function("local", "First", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    nodes = [helper.make_node("First", ["x"], ["h"], domain="local"), HIDDEN, linear("r", "fc2.weight", "y")]
    return model(graph(nodes, {"x": (1, 9)}, ["y"], {"fc2.weight": w2}), [function])


FORMS = [
    as_constants, as_masks, as_boolean_masks, as_qdq, as_qdq_per_channel, as_integers, as_sparse,
    as_sparse_coordinates, as_sparse_constants, behind_chains, in_parts, in_a_branch, in_a_function,
]  # fmt: skip
