"""Small ONNX models for the corpus: layers, subgraphs and functions, quantized weights, external data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import FunctionProto, NodeProto, SparseTensorProto, TensorProto, helper, numpy_helper

Arrays = Mapping[str, NDArray[Any]]
OPSETS = [helper.make_opsetid("", 18)]


def _model(
    nodes: Sequence[NodeProto],
    weights: Sequence[TensorProto],
    functions: Sequence[FunctionProto] = (),
    sparse: Sequence[SparseTensorProto] = (),
) -> bytes:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, n]) for name, n in (("x", 6), ("y", 3)))
    graph = helper.make_graph(nodes, "g", [x], [y], list(weights), sparse_initializer=sparse)
    opsets = [*OPSETS, helper.make_opsetid("own", 1)] if functions else OPSETS
    model: bytes = helper.make_model(
        graph, opset_imports=opsets, ir_version=10, functions=functions
    ).SerializeToString()
    return model


def _tensors(arrays: Arrays) -> list[TensorProto]:
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def layered(arrays: Arrays) -> bytes:
    """Two Gemms, with a convolution and a sparse initializer between them."""
    kernel = np.arange(3, dtype=np.float32).reshape(1, 1, 3)
    values = numpy_helper.from_array(np.ones(2, np.float32), "scale")
    indices = numpy_helper.from_array(np.array([0, 3], np.int64), "scale_indices")
    nodes = [
        helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["h"], transB=1),
        helper.make_node("Unsqueeze", ["h", "axis"], ["wide"]),
        helper.make_node("Conv", ["wide", "kernel"], ["c"], pads=[1, 1], kernel_shape=[3]),
        helper.make_node("Squeeze", ["c", "axis"], ["narrow"]),
        helper.make_node("Mul", ["narrow", "scale"], ["scaled"]),
        helper.make_node("Relu", ["scaled"], ["r"]),
        helper.make_node("Gemm", ["r", "2.weight", "2.bias"], ["y"], transB=1),
    ]
    axis = numpy_helper.from_array(np.array([1]), "axis")
    weights = [*_tensors(arrays), numpy_helper.from_array(kernel, "kernel"), axis]
    return _model(nodes, weights, sparse=[helper.make_sparse_tensor(values, indices, [5])])


def controlled(arrays: Arrays) -> bytes:
    """A function, an If on a constant and a Loop of two steps, with a weight in a Constant node."""
    floats = TensorProto.FLOAT
    body = [
        helper.make_node("Gemm", ["a", "w", "b"], ["g"], transB=1),
        helper.make_node("Relu", ["g"], ["out"]),
    ]
    layer = helper.make_function("own", "Layer", ["a", "w", "b"], ["out"], body, OPSETS)
    then = helper.make_graph(
        [helper.make_node("Tanh", ["h"], ["t"])], "then", [], [helper.make_tensor_value_info("t", floats, [1, 5])]
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["h"], ["e"])], "else", [], [helper.make_tensor_value_info("e", floats, [1, 5])]
    )
    square = numpy_helper.from_array(np.eye(5, dtype=np.float32), "square")
    loop = helper.make_graph(
        [
            helper.make_node("Constant", [], ["sq"], value=square),
            helper.make_node("MatMul", ["state", "sq"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", floats, [1, 5]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", floats, [1, 5]),
        ],
    )
    nodes = [
        helper.make_node("Layer", ["x", "0.weight", "0.bias"], ["h"], domain="own"),
        helper.make_node("If", ["yes"], ["chosen"], then_branch=then, else_branch=other),
        helper.make_node("Loop", ["twice", "yes", "chosen"], ["looped"], body=loop),
        helper.make_node("Gemm", ["looped", "2.weight", "2.bias"], ["y"], transB=1),
    ]
    constants = {"yes": np.array(True), "twice": np.array(2, np.int64)}
    return _model(nodes, [*_tensors(arrays), *_tensors(constants)], [layer])


def quantized(arrays: Arrays) -> bytes:
    """Weights as int8 with scales and zero points."""
    nodes, weights = [], []
    for name, array in arrays.items():
        whole = np.clip(np.round(array / 0.05), -128, 127).astype(np.int8 if array.ndim > 1 else np.int32)
        zero = np.zeros((), whole.dtype)
        scale = np.array(0.05, np.float32)
        weights += _tensors({f"{name}_q": whole, f"{name}_scale": scale, f"{name}_zero": zero})
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_scale", f"{name}_zero"], [name]))
    nodes += [
        helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "2.weight", "2.bias"], ["y"], transB=1),
    ]
    return _model(nodes, weights)


def external(arrays: Arrays) -> tuple[bytes, bytes]:
    """The weights in a separate file."""
    weights, data = _tensors(arrays), b""
    for tensor in weights:
        raw = tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", len(data)), ("length", len(raw))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        data += raw
    nodes = [
        helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["h"], transB=1),
        helper.make_node("Gemm", ["h", "2.weight", "2.bias"], ["y"], transB=1),
    ]
    return _model(nodes, weights), data
