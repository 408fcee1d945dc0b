"""Runs ONNX models: a model, its inputs and names of values in, their arrays out. Models run in onnxruntime, or in
onnx's reference implementation if onnxruntime lacks a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx.reference import ReferenceEvaluator

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.folding.onnx.unused import drop_unused
from effsparse_cli.folding.onnx.wiring import Wiring
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import attribute
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.graph.primitives import Shape

BESIDE = "session.model_external_initializers_file_folder_path"
FATAL_ONLY = 4


class Runner:
    """A model that computes some of its values, and only what they need; `folder` has its external data."""

    def __init__(self, model: ModelProto, folder: Path, wanted: Sequence[str]) -> None:
        self.wanted = list(wanted)
        self._model = ModelProto()
        self._model.CopyFrom(model)
        named = {value.name: value for value in model.graph.output}
        del self._model.graph.output[:]
        self._model.graph.output.extend(named.get(name, ValueInfoProto(name=name)) for name in dict.fromkeys(wanted))
        drop_unused(self._model)
        self._folder = folder
        self._session = self._open()

    def __call__(self, feeds: Mapping[str, Array]) -> list[Any]:
        """Return arrays, and sequences or maps where the model has such outputs."""
        try:
            names = list(dict.fromkeys(self.wanted))
            found = (self._session or self._reference).run(names, dict(feeds))
        except Exception as error:  # onnxruntime has its own exception classes; the reference raises NumPy's
            raise cannot_run(error) from error
        values = dict(zip(names, found, strict=True))
        return [values[name] for name in self.wanted]

    @cached_property
    def _reference(self) -> Any:
        return ReferenceEvaluator(self._model)

    def _open(self) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = FATAL_ONLY
        options.intra_op_num_threads = 1
        # Further optimizations round numbers that the model does not round, near quantized weights for example.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.add_session_config_entry(BESIDE, str(self._folder.resolve()))
        try:
            return onnxruntime.InferenceSession(
                self._model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            if "NOT_IMPLEMENTED" in str(error) or "NotImplemented" in type(error).__name__:
                return None
            raise cannot_run(error) from error


def cannot_run(error: Exception) -> LoadError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0][:300] if lines else type(error).__name__
    return LoadError(f"onnxruntime cannot run the model, so changes to it cannot be verified: {reason}")


def run_one(node: NodeProto, inputs: Sequence[Array | None], model: ModelProto) -> Array:
    """Run one node as a separate model."""
    if node.op_type == "Gemm" and len(inputs) == 2 and inputs[0] is not None:
        # Its third input is required before opset 11.
        inputs = [*inputs, np.zeros(1, inputs[0].dtype)]
    names = [f"in{i}" if array is not None else "" for i, array in enumerate(inputs)]
    alone = NodeProto(op_type=node.op_type, domain=node.domain, input=names, output=["out"], attribute=node.attribute)
    given = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    graph = GraphProto(name="one", node=[alone], output=[ValueInfoProto(name="out")])
    for name, array in given.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    single = ModelProto(ir_version=model.ir_version, graph=graph, opset_import=model.opset_import)
    return np.asarray(Runner(single, Path(), ["out"])(given)[0])


def draw(model: ModelProto, shapes: Mapping[str, Shape], limits: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Draw random inputs: noise for floats; for integers, rows of tables, or ones (a mask that hides nothing)."""
    dice = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name not in shapes:
            continue
        shape, kind = shapes[value.name], value.type.tensor_type.elem_type
        if not value.type.HasField("tensor_type"):
            raise UsageError(f"input {value.name!r} is not a tensor, so no random values can be drawn for it")
        if kind == TensorProto.STRING:
            raise UsageError(f"input {value.name!r} is text, so no random values can be drawn for it")
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        if dtype.kind in "iub":
            limit = limits.get(value.name)
            feeds[value.name] = (dice.integers(0, limit, shape) if limit else np.ones(shape)).astype(dtype)
        else:
            feeds[value.name] = dice.standard_normal(shape).astype(dtype)
    return feeds


def table_sizes(wiring: Wiring) -> dict[str, int]:
    """Return, by input, the number of rows of the stored tables that it is an index into."""
    sizes: dict[str, int] = {}
    for value in wiring.model.graph.input:
        waiting, rows = [value.name], []
        while waiting:
            given = waiting.pop()
            for node in wiring.readers.get(given, ()):
                operator = find_operator(node)
                if operator is None:
                    continue
                if operator.same_values and node.input[0] == given:
                    waiting.append(node.output[0])
                elif operator.lookup is not None and node.input[operator.lookup.indices] == given:
                    table = wiring.stored.get(node.input[operator.lookup.table])
                    if table is not None:
                        rows.append(int(table.dims[attribute(node, "axis", 0)]))
        if rows:
            sizes[value.name] = min(rows)
    return sizes
