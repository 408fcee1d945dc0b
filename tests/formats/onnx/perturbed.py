"""Runs ONNX models with some of their weights changed. For tests only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper

from effsparse_cli.formats.onnx.tensors.keys import tensors
from effsparse_cli.formats.onnx.tensors.names import layer_names
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools, Source

Place = tuple[str, int]
"""A layer and the flat position of one of its weights."""

Arrays = dict[str, NDArray[Any]]
DRAWN = 100
KINDS = {
    TensorProto.INT64: np.int64,
    TensorProto.INT32: np.int32,
    TensorProto.BOOL: np.bool_,
    TensorProto.UINT8: np.uint8,
}


def draw(masks: Mapping[str, Bools], seed: int) -> list[Place]:
    every = [(name, int(i)) for name, mask in masks.items() for i in np.flatnonzero(mask)]
    chosen = np.random.default_rng(seed).permutation(len(every))[:DRAWN]
    return [every[i] for i in chosen]


def changed(model: ModelProto, places: Sequence[Place], step: float = 3.0) -> ModelProto:
    """Return the model with `step` added to some weights. A quantized weight changes by many levels."""
    copy = ModelProto()
    copy.CopyFrom(model)
    names = layer_names(copy)
    positions: dict[str, list[int]] = {}
    for layer, position in places:
        positions.setdefault(layer, []).append(position)
    for key, tensor, _ in tensors(copy):
        if names[key] in positions and isinstance(tensor, TensorProto):
            array = numpy_helper.to_array(tensor).copy()
            flat = array.reshape(-1)
            flat[positions[names[key]]] += np.asarray(step if array.dtype.kind == "f" else 40).astype(array.dtype)
            tensor.CopyFrom(numpy_helper.from_array(flat.reshape(array.shape), tensor.name))
    return copy


def inputs_of(model: ModelProto, graph: Graph, seed: int = 0) -> Arrays:
    """Return random values in the input shapes of the graph. Integers are small."""
    random = np.random.default_rng(seed)
    kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    feeds: Arrays = {}
    for node in graph.nodes:
        if isinstance(node.op, Source):
            kind = KINDS.get(kinds[node.op.name])
            normal = random.normal(size=node.shape).astype(np.float32)
            feeds[node.op.name] = normal if kind is None else random.integers(1, 8, node.shape).astype(kind)
    return feeds


def outputs(model: ModelProto, feeds: Arrays) -> list[NDArray[Any]] | None:
    """Run the model; return None if it does not accept the values."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return [np.asarray(output) for output in session.run(None, feeds)]
    except Exception:
        return None


def moved(before: Sequence[NDArray[Any]], after: Sequence[NDArray[Any]]) -> bool:
    return any(a.tobytes() != b.tobytes() for a, b in zip(before, after, strict=True))
