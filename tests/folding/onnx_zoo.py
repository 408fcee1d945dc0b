"""Small ONNX models of many kinds: old and new opsets, unusual types, optional values, subgraphs, functions,
quantization, unknown operators. Each has a two-layer network with a dead unit in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

node = helper.make_node
Array = NDArray[Any]
INS, HIDDEN, OUTS = 4, 6, 3
FLOAT = int(TensorProto.FLOAT)
QONNX = "qonnx.custom_op.general"
NEWEST = 24


def weights(dtype: Any = np.float32, seed: int = 0) -> dict[str, Array]:
    """Unit 1 has no input, unit 2 is constant, unit 4 has no reader."""
    dice = np.random.default_rng(seed)
    first, second = dice.standard_normal((INS, HIDDEN)), dice.standard_normal((HIDDEN, OUTS))
    first[:, [1, 2]] = 0
    second[4] = 0
    bias = dice.standard_normal(HIDDEN)
    bias[1] = 0
    stored = {"w1": first, "b1": bias, "w2": second, "b2": dice.standard_normal(OUTS)}
    return {name: array.astype(dtype) for name, array in stored.items()}


def value(name: str, kind: int | None = FLOAT, shape: Sequence[int | str] | None = None) -> ValueInfoProto:
    return ValueInfoProto(name=name) if kind is None else helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[NodeProto],
    stored: dict[str, Array],
    *,
    inputs: Sequence[ValueInfoProto] | None = None,
    outputs: Sequence[ValueInfoProto] | None = None,
    opset: int = 18,
    ir: int = 8,
    domains: Sequence[str] = (),
    **more: Any,
) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        inputs or [value("x", shape=[2, INS])],
        outputs or [value("y")],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir, **more)


def linear(
    act: Sequence[NodeProto] = (node("Relu", ["h"], ["a"]),), x: str = "x", y: str = "y", gemm: bool = False
) -> list[NodeProto]:
    """x -> h -> the given nodes -> a -> y."""
    if gemm:
        return [node("Gemm", [x, "w1", "b1"], ["h"]), *act, node("Gemm", ["a", "w2", "b2"], [y])]
    return [
        node("MatMul", [x, "w1"], ["p1"]),
        node("Add", ["p1", "b1"], ["h"]),
        *act,
        node("MatMul", ["a", "w2"], ["p2"]),
        node("Add", ["p2", "b2"], [y]),
    ]


def of_opset(opset: int, ir: int) -> ModelProto:
    return model(linear(gemm=True), weights(), opset=opset, ir=ir)


def of_type(dtype: Any, kind: int) -> ModelProto:
    return model(linear(), weights(dtype), inputs=[value("x", kind, [2, INS])], outputs=[value("y", kind)])


def unknown(constant: bool = False) -> ModelProto:
    """An unknown operator, between the layers or on a stored weight."""
    if constant:
        nodes = linear()
        nodes[0].input[1] = "q"
        return model([node("Quantize", ["w1"], ["q"], domain="my.ops"), *nodes], weights(), domains=["my.ops"])
    act = [node("Twist", ["h"], ["a"], domain="my.ops")]
    return model(linear(act), weights(), outputs=[value("y", shape=[2, OUTS])], domains=["my.ops"])


def beside_unknown() -> ModelProto:
    """Two branches, one of them with an unknown operator that has weights."""
    twist = node("Twist", ["x", "w3"], ["right"], domain="my.ops")
    nodes = [*linear(y="left"), twist, node("Add", ["left", "right"], ["y"])]
    stored = {**weights(), "w3": np.ones((INS, OUTS), np.float32)}
    return model(nodes, stored, outputs=[value("y", shape=[2, OUTS])], domains=["my.ops"])


def idle_unknown() -> ModelProto:
    """Nothing reads the result of the unknown operator, so its input is dead."""
    nodes = [*linear([node("Twist", ["h"], ["a"], domain="my.ops")], y="left"), node("MatMul", ["x", "w3"], ["right"])]
    stored = {**weights(), "w3": np.ones((INS, OUTS), np.float32)}
    stored["w2"][:] = 0
    stored["w3"][0] = 0
    return model([*nodes, node("Add", ["left", "right"], ["y"])], stored, domains=["my.ops"])


def qonnx(kind: str = "Quant") -> ModelProto:
    """A stored weight and activations with QONNX quantizers."""
    stored = {**weights(), "step": np.array(0.1, np.float32)}
    more = ["zero", "bits"] if kind != "BipolarQuant" else []
    stored |= {"zero": np.array(0, np.float32), "bits": np.array(5, np.float32)} if more else {}
    if kind == "FloatQuant":
        more = ["exponent", "mantissa", "bias", "largest"]
        numbers = {"exponent": 4, "mantissa": 3, "bias": 7, "largest": 100}
        stored |= {name: np.array(number, np.float32) for name, number in numbers.items()}
    nodes = linear([node(kind, ["h", "step", *more], ["q"], domain=QONNX), node("Relu", ["q"], ["a"])])
    nodes[0].input[1] = "w1q"
    return model([node(kind, ["w1", "step", *more], ["w1q"], domain=QONNX), *nodes], stored, domains=[QONNX])


def function(subgraph: bool = False) -> ModelProto:
    """An operator of another domain that the file defines itself."""
    body = [node("Mul", ["u", "u"], ["s"]), node("Sqrt", ["s"], ["v"])]
    if subgraph:
        sides = [helper.make_graph([node(kind, ["u"], [kind])], kind, [], [value(kind)]) for kind in ("Abs", "Relu")]
        body = [
            node("ReduceSum", ["u"], ["t"], keepdims=0),
            node("Cast", ["t"], ["c"], to=int(TensorProto.BOOL)),
            node("If", ["c"], ["v"], then_branch=sides[0], else_branch=sides[1]),
        ]
    made = helper.make_function("own", "Shape1", ["u"], ["v"], body, [helper.make_opsetid("", 18)])
    act = [node("Shape1", ["h"], ["a"], domain="own")]
    return model(linear(act), weights(), domains=["own"], functions=[made])


def branches() -> ModelProto:
    def side(name: str, kind: str) -> GraphProto:
        return helper.make_graph([node(kind, ["h"], [name])], name, [], [value(name)])

    act = [
        node("ReduceSum", ["h"], ["s"], keepdims=0),
        node("Cast", ["s"], ["c"], to=int(TensorProto.BOOL)),
        node("If", ["c"], ["a"], then_branch=side("t", "Relu"), else_branch=side("e", "Abs")),
    ]
    return model(linear(act), weights())


def loop() -> ModelProto:
    body = helper.make_graph(
        [node("Relu", ["s"], ["s2"]), node("Identity", ["c"], ["c2"])],
        "body",
        [value("i", int(TensorProto.INT64), []), value("c", int(TensorProto.BOOL), []), value("s")],
        [value("c2", int(TensorProto.BOOL), []), value("s2")],
    )
    stored = {**weights(), "n": np.array(2), "go": np.array(True)}
    return model(linear([node("Loop", ["n", "go", "h"], ["a"], body=body)]), stored)


def scan() -> ModelProto:
    body = helper.make_graph(
        [node("Add", ["s", "r"], ["s2"]), node("Identity", ["s2"], ["o"])],
        "body",
        [value("s", shape=[HIDDEN]), value("r", shape=[HIDDEN])],
        [value("s2", shape=[HIDDEN]), value("o", shape=[HIDDEN])],
    )
    stored = {**weights(), "z": np.zeros(HIDDEN, np.float32)}
    return model(linear([node("Scan", ["z", "h"], ["last", "a"], body=body, num_scan_inputs=1)]), stored)


def lstm() -> ModelProto:
    dice = np.random.default_rng(3)
    stored = {
        "w": dice.standard_normal((1, 4 * HIDDEN, INS)).astype(np.float32),
        "r": dice.standard_normal((1, 4 * HIDDEN, HIDDEN)).astype(np.float32),
        "w2": weights()["w2"],
        "z": np.array([0]),
    }
    stored["w"][:, ::3] = 0
    nodes = [
        node("LSTM", ["x", "w", "r"], ["", "a", ""], hidden_size=HIDDEN),
        node("Squeeze", ["a", "z"], ["s"]),
        node("MatMul", ["s", "w2"], ["y"]),
    ]
    return model(nodes, stored, inputs=[value("x", shape=[5, 2, INS])])


def optional_values() -> ModelProto:
    """Empty names for absent inputs and outputs."""
    act = [
        node("Clip", ["h", "", "six"], ["c"]),
        node("Dropout", ["c", "", ""], ["d", ""]),
        node("Resize", ["d", "", "scales"], ["a"]),
    ]
    return model(linear(act), {**weights(), "six": np.array(6, np.float32), "scales": np.ones(2, np.float32)})


def text_outputs() -> ModelProto:
    nodes = [*linear(), node("Cast", ["y"], ["t"], to=int(TensorProto.STRING))]
    return model(nodes, weights(), outputs=[value("y"), value("t", int(TensorProto.STRING))])


def label_outputs() -> ModelProto:
    """As converters of classifiers write it: labels as text, and a sequence of maps."""
    labels = ["a", "b", "c"]
    nodes = [
        *linear(),
        node("Softmax", ["y"], ["p"]),
        node("ArgMax", ["p"], ["i"], axis=1, keepdims=0),
        node("LabelEncoder", ["i"], ["label"], domain="ai.onnx.ml", keys_int64s=[0, 1, 2], values_strings=labels),
        node("ZipMap", ["p"], ["maps"], domain="ai.onnx.ml", classlabels_strings=labels),
    ]
    entries = helper.make_map_type_proto(int(TensorProto.STRING), helper.make_tensor_type_proto(FLOAT, []))
    maps = helper.make_value_info("maps", helper.make_sequence_type_proto(entries))
    made = model(nodes, weights(), outputs=[value("label", int(TensorProto.STRING)), maps])
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    return made


def sequence_output() -> ModelProto:
    nodes = [*linear(), node("SplitToSequence", ["y"], ["parts"], axis=1)]
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    return model(nodes, weights(), outputs=[helper.make_value_info("parts", kind)])


def stored_output() -> ModelProto:
    return model(linear(), weights(), outputs=[value("y"), value("w1", shape=[INS, HIDDEN]), value("b2", shape=[OUTS])])


def stored_inputs(ir: int = 3) -> ModelProto:
    stored = weights()
    listed = [value(name, shape=array.shape) for name, array in stored.items()]
    return model(linear(), stored, inputs=[value("x", shape=[2, INS]), *listed], opset=9, ir=ir)


def unsorted() -> ModelProto:
    return model(linear()[::-1], weights())


def open_batch() -> ModelProto:
    return model(linear(), weights(), inputs=[value("x", shape=["batch", INS])])


def quantized_weights(scale: Array, axis: int | None, bias: bool) -> ModelProto:
    """QuantizeLinear and DequantizeLinear on stored tensors, including a bias."""
    stored = weights()
    sizes = {"w1": np.int8, "w2": np.int8} | ({"b1": np.int32, "b2": np.int32} if bias else {})
    nodes = []
    for name, kind in sizes.items():
        step = scale if scale.size == 1 or stored[name].ndim > 1 else scale[:1]
        if step.size > 1:
            step = np.full(stored[name].shape[1 if axis is None else axis], scale[0], np.float32)
        stored[f"{name}_q"] = np.round(stored.pop(name) / scale.reshape(-1)[0]).astype(kind)
        stored[f"{name}_s"], stored[f"{name}_z"] = step, np.zeros(step.shape, kind)
        more: dict[str, Any] = {} if axis is None else {"axis": axis}
        nodes.append(node("DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], [name], **more))
    return model([*nodes, *linear(gemm=True)], stored, opset=13)


def quantized_all() -> ModelProto:
    """int8 activations too, as quantization tools write them."""
    stored = {
        "xs": np.float32(0.05), "xz": np.uint8(128), "ys": np.float32(0.1), "yz": np.uint8(120),
        "ws": np.float32(0.02), "wz": np.int8(0),
        "wq": np.round(weights()["w1"] / 0.02).clip(-127, 127).astype(np.int8),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        node("QLinearMatMul", ["q", "xs", "xz", "wq", "ws", "wz", "ys", "yz"], ["m"]),
        node("DequantizeLinear", ["m", "ys", "yz"], ["h"]),
        node("Relu", ["h"], ["a"]),
        node("MatMul", ["a", "w2"], ["y"]),
    ]
    return model(nodes, {**{k: np.asarray(v) for k, v in stored.items()}, "w2": weights()["w2"]}, opset=13)


def dynamic_quantized() -> ModelProto:
    wq = np.round(weights()["w1"] / 0.02).clip(-127, 127).astype(np.int8)
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("MatMulInteger", ["q", "wq", "z"], ["m"]),
        node("Cast", ["m"], ["f"], to=FLOAT),
        node("Mul", ["f", "s"], ["h"]),
        node("Relu", ["h"], ["a"]),
        node("MatMul", ["a", "w2"], ["y"]),
    ]
    return model(nodes, {"wq": wq, "w2": weights()["w2"]})


def convolution(norm: bool = True, dtype: Any = np.float32, kind: int = FLOAT) -> ModelProto:
    dice = np.random.default_rng(5)
    c1, c2 = dice.standard_normal((6, 3, 3, 3)), dice.standard_normal((4, 6, 3, 3))
    c1[[1, 3]] = 0
    c2[:, 4] = 0
    stored = {"c1": c1, "c2": c2, **{n: dice.standard_normal(6) for n in ("s", "b", "m")}, "v": np.ones(6)}
    nodes = [
        node("Conv", ["x", "c1"], ["h"], pads=[1] * 4),
        node("BatchNormalization", ["h", "s", "b", "m", "v"], ["n"]) if norm else node("Cos", ["h"], ["n"]),
        node("Relu", ["n"], ["a"]),
        node("Conv", ["a", "c2"], ["y"]),
    ]
    inputs = [value("x", kind, [1, 3, 6, 6])]
    return model(nodes, {k: a.astype(dtype) for k, a in stored.items()}, inputs=inputs, outputs=[value("y", kind)])


def sparse() -> ModelProto:
    made = model(linear(), weights())
    found = next(t for t in made.graph.initializer if t.name == "w2")
    array = numpy_helper.to_array(found)
    places = np.flatnonzero(array)
    made.graph.initializer.remove(found)
    held = numpy_helper.from_array(array.reshape(-1)[places], "w2")
    where = numpy_helper.from_array(places)
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(held, where, list(array.shape)))
    return made


def constants() -> ModelProto:
    nodes = [node("Constant", [], [n], value=numpy_helper.from_array(a)) for n, a in weights().items()]
    return model([*nodes, *linear()], {})


def two_outputs_one_constant() -> ModelProto:
    nodes = [*linear(), node("Shape", ["y"], ["s"]), node("ConstantOfShape", ["s"], ["z"])]
    return model(nodes, weights(), outputs=[value("y"), value("z"), value("s", int(TensorProto.INT64))])


def random_numbers() -> ModelProto:
    act = [
        node("RandomNormalLike", ["h"], ["noise"], seed=1.0),
        node("Mul", ["noise", "zero"], ["nothing"]),
        node("Add", ["h", "nothing"], ["a"]),
    ]
    return model(linear(act), {**weights(), "zero": np.zeros(1, np.float32)})


def not_implemented_type() -> ModelProto:
    """onnxruntime has no kernel for the type; onnx's reference implementation runs it."""
    act = [node("Tan", ["h"], ["t"]), node("Add", ["t", "h"], ["a"])]
    made = of_type(np.float64, int(TensorProto.DOUBLE))
    del made.graph.node[:]
    made.graph.node.extend(linear(act))
    return made


def microsoft() -> ModelProto:
    fused = node("FusedGemm", ["x", "w1", "b1"], ["a"], domain="com.microsoft", activation="Relu")
    return model([fused, node("Gemm", ["a", "w2", "b2"], ["y"])], weights(), domains=["com.microsoft"])


def zero_functions(kind: str) -> ModelProto:
    return model(linear([node("Tanh", ["h"], ["t"]), node(kind, ["t"], ["a"])]), weights(), opset=22)


OPSETS = ((7, 3), (8, 3), (9, 4), (10, 5), (11, 6), (12, 7), (13, 7), (15, 8), (17, 8), (19, 9), (21, 10), (23, 11))
MODELS: dict[str, Callable[[], ModelProto]] = {
    **{f"opset {opset}": partial(of_opset, opset, ir) for opset, ir in (*OPSETS, (NEWEST, 11))},
    "opset 999": lambda: of_opset(999, 8),
    "ir version 99": lambda: of_opset(18, 99),
    "float16": lambda: of_type(np.float16, int(TensorProto.FLOAT16)),
    "bfloat16": lambda: of_type(bfloat16, int(TensorProto.BFLOAT16)),
    "double": lambda: of_type(np.float64, int(TensorProto.DOUBLE)),
    "integers": lambda: of_type(np.int32, int(TensorProto.INT32)),
    "unknown operator": unknown,
    "unknown operator on a weight": lambda: unknown(constant=True),
    "beside an unknown operator": beside_unknown,
    "unknown operator that nothing reads": idle_unknown,
    **{f"qonnx {kind}": partial(qonnx, kind) for kind in ("Quant", "IntQuant", "BipolarQuant", "FloatQuant")},
    "function": function,
    "function with a subgraph": lambda: function(subgraph=True),
    "if": branches,
    "loop": loop,
    "scan": scan,
    "lstm": lstm,
    "optional values": optional_values,
    "text outputs": text_outputs,
    "labels and maps": label_outputs,
    "sequence output": sequence_output,
    "stored output": stored_output,
    "stored inputs": stored_inputs,
    "stored inputs, new": lambda: stored_inputs(8),
    "unsorted": unsorted,
    "open batch": open_batch,
    "quantized weights": lambda: quantized_weights(np.array(0.02, np.float32), None, bias=False),
    "quantized biases": lambda: quantized_weights(np.array([0.02], np.float32), None, bias=True),
    "quantized by channel": lambda: quantized_weights(np.array([0.02, 0.02], np.float32), 1, bias=True),
    "quantized by row": lambda: quantized_weights(np.array([0.02, 0.02], np.float32), 0, bias=False),
    "int8 activations": quantized_all,
    "dynamically quantized": dynamic_quantized,
    "convolution": convolution,
    "convolution and cosine": lambda: convolution(norm=False),
    "convolution in half precision": lambda: convolution(dtype=np.float16, kind=int(TensorProto.FLOAT16)),
    "sparse tensor": sparse,
    "constant nodes": constants,
    "constant output": two_outputs_one_constant,
    "random numbers": random_numbers,
    "double Tan": not_implemented_type,
    "microsoft": microsoft,
    **{kind: partial(zero_functions, kind) for kind in ("Acos", "Cos", "Exp", "Sigmoid", "Softplus", "Cosh")},
}
