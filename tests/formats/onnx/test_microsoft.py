"""Operators of onnxruntime: each lowers without Opaque, and changing what does not matter does not change the
output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from effsparse_cli.paths import find_paths
from tests.formats.onnx.dependence import confirm
from tests.formats.onnx.models import model, sparse_array, tensor
from tests.formats.onnx.probes import opaque_labels

Array = NDArray[Any]
KINDS = {"f": TensorProto.FLOAT, "i4": TensorProto.INT32, "i8": TensorProto.INT64, "u1": TensorProto.UINT8}


@dataclass(frozen=True)
class Case:
    """One op call. `live` are the inputs of the model; the others are stored in it, None is absent."""

    op: str
    inputs: dict[str, Array | None]
    live: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    can_run: bool = True
    id: str = ""


def dense(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def byte(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(0, 255, shape).astype(np.uint8)


def number(value: float, kind: Any = np.float32) -> Array:
    return np.asarray(value, kind)


def point(value: int) -> Array:
    return np.asarray(value, np.uint8)


def ints(*values: int, kind: Any = np.int32) -> Array:
    return np.asarray(values, kind)


X = dense(0, 1, 4, 8)
SEEN = np.asarray([[1, 1, 0, 1]], np.int32)
PLACES = np.asarray([[0, 1, 2, 3]], np.int64)
QKV = sparse_array(1, 8, 24, density=0.2)
CACHE = {"cos": dense(1, 16, 2), "sin": dense(2, 16, 2)}
WIDE = {"cos": dense(1, 16, 8), "sin": dense(2, 16, 8)}
GROUPED = {"q": dense(0, 1, 4, 64), "k": dense(1, 1, 4, 32), "v": dense(2, 1, 4, 32)}
CASES = [
    Case("Attention", {"x": X, "w": QKV, "b": sparse_array(2, 24)}, ("x",), {"num_heads": 2}),
    Case("Attention", {"x": X, "w": QKV, "b": sparse_array(2, 24)}, ("x",), {"num_heads": 2, "unidirectional": 1}),
    Case("Attention", {"x": X, "w": QKV, "b": dense(2, 24), "m": SEEN}, ("x",), {"num_heads": 2}),
    Case("Attention", {"x": X, "w": QKV, "b": dense(2, 24), "m": SEEN}, ("x", "m"), {"num_heads": 2}),
    Case("Attention", {"x": X, "w": QKV, "b": dense(2, 24), "m": None, "p": dense(3, 2, 1, 2, 3, 4)}, ("x", "p"),
         {"num_heads": 2, "unidirectional": 1}, outputs=2),
    Case("QAttention", {"x": byte(1, 1, 4, 8), "w": byte(2, 8, 24), "b": dense(2, 24), "xs": number(0.1),
                        "ws": number(0.1), "m": None, "xz": point(128), "wz": point(127)},
         ("x",), {"num_heads": 2}),
    Case("MultiHeadAttention", {"q": X, "k": dense(1, 1, 5, 8), "v": dense(2, 1, 5, 8)}, ("q", "k", "v"),
         {"num_heads": 2}),
    Case("MultiHeadAttention", {"q": X, "k": dense(1, 1, 4, 8), "v": dense(2, 1, 4, 8), "b": dense(3, 24)},
         ("q", "k", "v"), {"num_heads": 2, "unidirectional": 1}),
    Case("MultiHeadAttention", {"q": X, "k": dense(1, 1, 4, 8), "v": dense(2, 1, 4, 8), "b": None, "m": None,
                                "a": dense(4, 1, 2, 4, 7), "pk": dense(5, 1, 2, 3, 4), "pv": dense(6, 1, 2, 3, 4)},
         ("q", "k", "v", "a", "pk", "pv"), {"num_heads": 2}, outputs=3),
    Case("GroupQueryAttention", {**GROUPED, "pk": None, "pv": None, "n": ints(3), "t": number(4, np.int32)},
         ("q", "k", "v"), {"num_heads": 4, "kv_num_heads": 2}, outputs=3),
    Case("GroupQueryAttention", {**GROUPED, "pk": None, "pv": None, "n": ints(3), "t": number(4, np.int32), **WIDE},
         ("q", "k", "v"), {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, outputs=3),
    Case("GroupQueryAttention", {**GROUPED, "pk": dense(5, 1, 2, 3, 16), "pv": dense(6, 1, 2, 3, 16), "n": ints(6),
                                 "t": number(7, np.int32), **WIDE},
         ("q", "k", "v", "pk", "pv", "n"), {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, outputs=3),
    Case("RotaryEmbedding", {"x": dense(0, 1, 2, 4, 4), "p": PLACES, **CACHE}, ("x",)),
    Case("RotaryEmbedding", {"x": dense(0, 1, 2, 4, 4), "p": PLACES, **CACHE},
         ("x", "p"), {"interleaved": 1}),
    Case("SkipLayerNormalization", {"x": X, "s": dense(1, 1, 4, 8), "g": sparse_array(2, 8, density=0.7),
                                    "b": dense(3, 8), "bias": dense(4, 8)}, ("x", "s"), {"epsilon": 1e-5}),
    Case("SkipSimplifiedLayerNormalization", {"x": X, "s": dense(1, 1, 4, 8), "g": sparse_array(2, 8, density=0.7)},
         ("x", "s"), {"epsilon": 1e-5}),
    Case("EmbedLayerNormalization", {"ids": SEEN + 1, "seg": SEEN,
                                     "word": sparse_array(1, 6, 8), "pos": dense(2, 5, 8), "segs": dense(3, 2, 8),
                                     "g": sparse_array(4, 8, density=0.7), "b": dense(5, 8)},
         ("ids", "seg"), {"epsilon": 1e-5}, outputs=2),
    Case("FusedMatMul", {"a": dense(0, 2, 3, 4), "b": sparse_array(1, 5, 4)}, ("a",), {"transB": 1, "alpha": 0.5}),
    Case("FusedMatMul", {"a": dense(0, 2, 4, 3), "b": dense(1, 2, 4, 5)}, ("a", "b"), {"transA": 1}),
    Case("FusedMatMul", {"a": dense(0, 3, 2, 4), "b": dense(1, 5, 2, 4)}, ("a", "b"),
         {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
    Case("FusedMatMul", {"a": dense(0, 4, 2, 3), "b": sparse_array(1, 2, 4, 5)}, ("a",),
         {"transBatchA": 1, "transA": 1}),
    Case("FusedGemm", {"a": dense(0, 3, 4), "b": sparse_array(1, 4, 5), "c": dense(2, 5)}, ("a",),
         {"activation": "Relu"}),
    Case("FusedConv", {"x": dense(0, 1, 2, 5, 5), "w": sparse_array(1, 3, 2, 3, 3), "b": dense(2, 3)}, ("x",),
         {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    Case("Gelu", {"x": X}, ("x",)),
    Case("QuickGelu", {"x": X}, ("x",)),
    Case("FastGelu", {"x": X, "b": dense(1, 8)}, ("x",)),
    Case("BiasGelu", {"x": X, "b": dense(1, 8)}, ("x",)),
    Case("MatMulIntegerToFloat", {"a": byte(0, 3, 4), "b": byte(1, 4, 5), "as": number(0.1), "bs": number(0.2),
                                  "az": point(128), "bz": point(127), "bias": dense(2, 5)}, ("a",)),
    Case("DynamicQuantizeMatMul", {"a": dense(0, 3, 4), "b": byte(1, 4, 5), "bs": number(0.2), "bz": point(9)}, ("a",)),
    Case("QGemm", {"a": byte(0, 3, 4), "as": number(0.1), "az": point(128), "b": byte(1, 5, 4), "bs": number(0.1),
                   "bz": point(127), "c": ints(1, 2, 3, 4, 5), "ys": number(0.5), "yz": point(7)},
         ("a",), {"transB": 1}),
    Case("QLinearAdd", {"a": byte(0, 3, 4), "as": number(0.1), "az": point(128), "b": byte(1, 3, 4), "bs": number(0.1),
                        "bz": point(1), "ys": number(0.1), "yz": point(7)}, ("a", "b")),
    Case("QLinearMul", {"a": byte(0, 3, 4), "as": number(0.1), "az": point(128), "b": byte(1, 4), "bs": number(0.1),
                        "bz": point(1), "ys": number(0.1), "yz": point(7)}, ("a",)),
    Case("QLinearSigmoid", {"x": byte(0, 3, 4), "xs": number(0.1), "xz": point(1), "ys": number(0.1),
                            "yz": point(7)}, ("x",)),
    Case("QLinearLeakyRelu", {"x": byte(0, 3, 4), "xs": number(0.1), "xz": point(1), "ys": number(0.1),
                              "yz": point(7)}, ("x",), {"alpha": 0.1}),
    Case("QLinearSoftmax", {"x": byte(0, 3, 4), "xs": number(0.1), "xz": point(1), "ys": number(0.01),
                            "yz": point(7)}, ("x",), {"axis": -1, "opset": 13}),
    Case("QLinearGlobalAveragePool", {"x": byte(0, 1, 3, 4, 4), "xs": number(0.1), "xz": point(1),
                                      "ys": number(0.1), "yz": point(7)}, ("x",)),
    Case("QLinearAveragePool", {"x": byte(0, 1, 3, 4, 4), "xs": number(0.1), "xz": point(1), "ys": number(0.1),
                                "yz": point(7)}, ("x",), {"kernel_shape": [2, 2]}),
    Case("QLinearConcat", {"ys": number(0.1), "yz": point(7), "a": byte(0, 2, 3), "as": number(0.1),
                           "az": point(1), "b": byte(1, 2, 2), "bs": number(0.2), "bz": point(2)},
         ("a", "b"), {"axis": 1}),
    Case("MatMulNBits", {"a": dense(0, 3, 32), "b": byte(1, 5, 2, 8), "s": dense(2, 10)}, ("a",),
         {"K": 32, "N": 5, "bits": 4, "block_size": 16}),
    Case("MatMulNBits", {"a": dense(0, 3, 32), "b": byte(1, 5, 2, 8), "s": dense(2, 10), "z": byte(3, 5)}, ("a",),
         {"K": 32, "N": 5, "bits": 4, "block_size": 16}),
    Case("GroupNorm", {"x": dense(0, 1, 3, 3, 8), "g": sparse_array(1, 8), "b": dense(2, 8)}, ("x",),
         {"groups": 2, "activation": 0, "epsilon": 1e-5}, can_run=False),
    Case("BiasSplitGelu", {"x": dense(0, 1, 3, 8), "b": dense(2, 8)}, ("x",), can_run=False),
]  # fmt: skip


def content(case: Case) -> ModelProto:
    names = [name if array is not None else "" for name, array in case.inputs.items()]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, domain="com.microsoft", **case.attributes)
    given = {name: array for name, array in case.inputs.items() if array is not None}
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(n, KINDS[_kind(given[n])], given[n].shape) for n in case.live],
        [ValueInfoProto(name=name) for name in outputs],
        [tensor(name, array) for name, array in given.items() if name not in case.live],
    )
    return model(graph)


def _kind(array: Array) -> str:
    return "f" if array.dtype == np.float32 else f"{array.dtype.kind}{array.dtype.itemsize}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{'-'.join(case.live)}-{'-'.join(case.attributes)}")
def test_lowered_and_confirmed(case: Case, record_property: Callable[[str, object], None]) -> None:
    made = content(case)
    found = confirm(case.op, made, {name: case.inputs[name] for name in case.live})
    assert list(opaque_labels(found.graph)) == []
    assert (found.elements is not None) == case.can_run
    record_property("witness: com.microsoft operators, input elements confirmed not to matter", found.elements or 0)


def test_packed_weights_are_relative_to_zero_points() -> None:
    """Two weights per byte, the low half first. Without zero points, 8 is zero."""
    packed = np.full((1, 1, 8), 0x88, np.uint8)
    packed[0, 0, 0] = 0x18
    case = Case("MatMulNBits", {"a": dense(0, 1, 16), "w": packed, "s": dense(1, 1)}, ("a",),
                {"K": 16, "N": 1, "bits": 4, "block_size": 16})  # fmt: skip
    graph = confirm("packed", content(case), {"a": case.inputs["a"]}).graph
    kept = find_paths(graph)["w"].mask("kept")
    assert kept.shape == (1, 16)
    assert np.flatnonzero(kept).tolist() == [1]
