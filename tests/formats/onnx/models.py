"""Small ONNX models made in memory, and what the tool finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from effsparse_cli.formats.onnx.model import build
from effsparse_cli.formats.onnx.model_file import OnnxFile
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.graph.verify import verify
from effsparse_cli.paths import find_paths

Floats = NDArray[np.float32]
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]


def read(path: Path, options: LoadOptions) -> Graph:
    """Return the graph of an ONNX file, whatever its content looks like."""
    return OnnxFile(path, options).graph()


def sparse_array(seed: int, *shape: int, density: float = 0.3) -> Floats:
    random = np.random.default_rng(seed)
    return (random.normal(size=shape) * (random.random(shape) < density)).astype(np.float32)


def tensor(name: str, array: NDArray[Any]) -> TensorProto:
    return numpy_helper.from_array(np.asarray(array, order="C"), name)


def graph(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    stored: Mapping[str, NDArray[Any]] | None = None,
    kind: int = TensorProto.FLOAT,
) -> GraphProto:
    return helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [tensor(name, array) for name, array in (stored or {}).items()],
    )


def model(content: GraphProto, functions: Sequence[Any] = ()) -> ModelProto:
    opsets = [*OPSETS, helper.make_opsetid("local", 1)]
    return helper.make_model(content, opset_imports=opsets, ir_version=10, functions=functions)


def masks(content: ModelProto, kind: str, path: Path = Path("model.onnx"), **options: Any) -> dict[str, Bools]:
    """Return the masks of one kind (kept, active, ...) for each layer."""
    built = build(content, path, LoadOptions(**options))[0]
    verify(built)
    paths = find_paths(built)
    return {name: paths[name].mask(kind) for name in built.layers}


def mlp() -> tuple[ModelProto, dict[str, Floats]]:
    """Return two linear layers, stored [out, in], pruned so that some kept connections are inactive."""
    stored = {"fc1.weight": sparse_array(1, 12, 9, density=0.12), "fc2.weight": sparse_array(2, 5, 12, density=0.12)}
    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "fc2.weight"], ["y"], transB=1),
    ]
    return model(graph(nodes, {"x": (1, 9)}, ["y"], stored)), stored
