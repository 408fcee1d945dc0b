"""Small ONNX models that compute their weights from stored ones, as exporters and quantizers write them, with an
evaluator: onnxruntime, or onnx's reference if onnxruntime lacks an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array = NDArray[Any]
SIZES = (4, 6, 3)
INDICES = {"axes": [0], "front": [0], "last": [-1], "first": [-(2**62)]}
DOUBLE = ("InstanceNormalization",)
"""Operators that onnxruntime implements only in single precision."""


class Blur(OpRun):
    """A custom operator without a rule: each element plus the sum of its column."""

    op_domain = "witness"

    def _run(self, weight: Array) -> tuple[Array]:
        return (weight + weight.sum(axis=0, keepdims=True),)


class Scale(OpRun):
    """A custom operator without a rule: every element times the largest element of a second tensor."""

    op_domain = "witness"

    def _run(self, weight: Array, other: Array) -> tuple[Array]:
        return (weight / np.abs(other).max(),)


def node(op: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), [output], domain=domain, **attributes)


def _standardized(w: str, out: str) -> list[NodeProto]:
    return [
        node("ReduceMean", [w, "axes"], f"{w}.mean", keepdims=1),
        node("Sub", [w, f"{w}.mean"], f"{w}.centred"),
        node("Mul", [f"{w}.centred", f"{w}.centred"], f"{w}.square"),
        node("ReduceMean", [f"{w}.square", "axes"], f"{w}.variance", keepdims=1),
        node("Add", [f"{w}.variance", "epsilon"], f"{w}.safe"),
        node("Sqrt", [f"{w}.safe"], f"{w}.deviation"),
        node("Div", [f"{w}.centred", f"{w}.deviation"], out),
    ]


def _instance_norm(w: str, out: str) -> list[NodeProto]:
    """Weight standardization as an exporter writes `F.batch_norm` in training mode."""
    return [
        node("Unsqueeze", [w, "front"], f"{w}.wide"),
        node("InstanceNormalization", [f"{w}.wide", f"{w}.gain", f"{w}.shift"], f"{w}.normed"),
        node("Squeeze", [f"{w}.normed", "front"], out),
    ]


def _largest(w: str, out: str) -> list[NodeProto]:
    return [
        node("Abs", [w], f"{w}.size"),
        node("ReduceMax", [f"{w}.size"], f"{w}.top", keepdims=0),
        node("Div", [w, f"{w}.top"], out),
    ]


def _reversed(w: str, out: str, op: str) -> list[NodeProto]:
    return [
        node("Slice", [w, "last", "first", "front", "last"], f"{w}.reversed"),
        node(op, [w, f"{w}.reversed"], out),
    ]


Weigh = Callable[[str, str], list[NodeProto]]
WEIGHED: dict[str, Weigh] = {
    "standardized": _standardized,
    "instance norm": _instance_norm,
    "scaled by its own maximum": _largest,
    "normalized": lambda w, out: [node("LpNormalization", [w], out, axis=0, p=2)],
    "softmax": lambda w, out: [node("Softmax", [w], out, axis=0)],
    "low rank added": lambda w, out: [
        node("MatMul", [f"{w}.up", f"{w}.down"], f"{w}.low"),
        node("Add", [w, f"{w}.low"], out),
    ],
    "low rank": lambda w, out: [node("MatMul", [f"{w}.up", f"{w}.down"], out)],
    "cumulative": lambda w, out: [node("CumSum", [w, "axis"], out)],
    "cast like": lambda w, out: [
        node("CastLike", ["epsilon", w], f"{w}.one"),
        node("Add", [w, f"{w}.one"], out),
    ],
    "added to itself reversed": lambda w, out: _reversed(w, out, "Add"),
    "multiplied by itself reversed": lambda w, out: _reversed(w, out, "Mul"),
    "unknown operator": lambda w, out: [node("Blur", [w], out, "witness")],
    "unknown operator of two": lambda w, out: [node("Scale", [w, f"{w}.up"], out, "witness")],
    "unknown operator, transposed": lambda w, out: [
        node("Transpose", [w], f"{w}.t"),
        node("Blur", [f"{w}.t"], f"{w}.blurred", "witness"),
        node("Transpose", [f"{w}.blurred"], out),
    ],
}


def build(name: str, seed: int = 0) -> ModelProto:
    """Return two layers with a scale between them; half of the weights are zero and the scale cuts some channels."""
    dice = np.random.default_rng(seed)

    def drawn(key: str, *shape: int, density: float = 0.5) -> TensorProto:
        return numpy_helper.from_array(dice.normal(size=shape) * (dice.random(shape) < density), key)

    stored, nodes = [], []
    for w, (fan_in, fan_out) in {"w1": SIZES[:2], "w2": SIZES[1:]}.items():
        stored += [drawn(w, fan_in, fan_out), drawn(f"{w}.up", fan_in, 2), drawn(f"{w}.down", 2, fan_out)]
        stored += [drawn(f"{w}.gain", fan_in, density=1), drawn(f"{w}.shift", fan_in, density=0)]
        nodes += WEIGHED[name](w, f"{w}.used")
    stored.append(drawn("scale", SIZES[1], density=0.6))
    stored += [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in INDICES.items()]
    stored.append(numpy_helper.from_array(np.array(0, np.int64), "axis"))
    stored.append(numpy_helper.from_array(np.array(1e-5), "epsilon"))
    nodes += [
        node("MatMul", ["x", "w1.used"], "h"),
        node("Mul", ["h", "scale"], "scaled"),
        node("MatMul", ["scaled", "w2.used"], "y"),
    ]
    read = {key for made in nodes for key in made.input}
    values = [helper.make_tensor_value_info(k, TensorProto.DOUBLE, [2, n]) for k, n in (("x", 4), ("y", 3))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [t for t in stored if t.name in read])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("witness", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run(model: ModelProto, feeds: dict[str, Array]) -> list[Array]:
    if any(made.domain or made.op_type in DOUBLE for made in model.graph.node):
        return [np.asarray(a) for a in ReferenceEvaluator(model, new_ops=[Blur, Scale]).run(None, feeds)]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [np.asarray(a) for a in session.run(None, feeds)]


def feeds_of(model: ModelProto, seed: int = 0) -> dict[str, Array]:
    """Return random numbers for every input, with the declared type and shape."""
    dice = np.random.default_rng(seed)
    found = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        found[value.name] = dice.normal(size=shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return found
