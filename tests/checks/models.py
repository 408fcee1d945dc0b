"""Small ONNX files for tests: networks of linear layers with given weights."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

Array = NDArray[Any]


def write_mlp(
    file: Path,
    weights: Mapping[str, Array],
    masks: Mapping[str, Array] | None = None,
    custom: bool = False,
    transposed: bool = False,
) -> Path:
    """Write a chain of linear layers with weights [outputs, inputs]. `custom` appends an unknown operator; `transposed`
    stores weights as [inputs, outputs] for MatMul, as exporters do."""
    nodes: list[NodeProto] = []
    stored = []
    value = "x"
    for name, weight in weights.items():
        used = f"{name}.weight"
        array = weight.T.copy() if transposed else weight
        stored.append(numpy_helper.from_array(array, used))
        if masks and name in masks:
            stored.append(numpy_helper.from_array(masks[name].astype(array.dtype), f"{name}.mask"))
            nodes.append(helper.make_node("Mul", [used, f"{name}.mask"], [f"{name}.masked"]))
            used = f"{name}.masked"
        made = (
            helper.make_node("MatMul", [value, used], [f"{name}.out"], name=name)
            if transposed
            else helper.make_node("Gemm", [value, used], [f"{name}.out"], name=name, transB=1)
        )
        nodes += [made, helper.make_node("Relu", [f"{name}.out"], [f"{name}.relu"])]
        value = f"{name}.relu"
    if custom:
        nodes.append(helper.make_node("Mystery", [value], ["mystery"], domain="com.example"))
        value = "mystery"
    first, last = (list(weights.values())[i] for i in (0, -1))
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, first.shape[1]])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, last.shape[0]])],
        stored,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), file)
    return file


def dense(*sizes: int) -> dict[str, Array]:
    """Return layers fc1, fc2, ... with all weights 1."""
    return {f"fc{i}": np.ones((outputs, inputs), np.float32) for i, (inputs, outputs) in enumerate(pairwise(sizes), 1)}


def chain() -> dict[str, Array]:
    """Return two diagonal 4x4 layers: 8 of 32 connections kept, all active."""
    return {"fc1": np.eye(4, dtype=np.float32), "fc2": np.eye(4, dtype=np.float32)}


def with_dead_ends(number: int) -> dict[str, Array]:
    """Return `chain` with `number` inactive connections in fc1: fc2 does not read the neurons that they lead to."""
    weights = chain()
    weights["fc2"][3, 3] = 0
    weights["fc1"][3, :] = 0
    weights["fc1"][3, :number] = 1
    return weights
