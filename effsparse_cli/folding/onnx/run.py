"""Runs ONNX models: a model, its inputs and names of values in, their arrays out. Models run in onnxruntime, or in
onnx's reference implementation if onnxruntime lacks a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx.reference import ReferenceEvaluator

from effsparse_cli.errors import LoadError, UsageError, first_line
from effsparse_cli.folding.onnx.unrunnable import UnrunnableOperators
from effsparse_cli.folding.onnx.wiring import Wiring
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import attribute, free_names
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.graph.primitives import Shape

BESIDE = "session.model_external_initializers_file_folder_path"
FATAL_ONLY = 4


class Runner:
    """A model that computes some of its values, and only what they need; `folder` has its external data."""

    def __init__(self, model: ModelProto, folder: Path, wanted: Sequence[str]) -> None:
        self.wanted = list(wanted)
        self._model = deepcopy(model)
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
            raise cannot_run(error, "changes to it cannot be verified") from error
        values = dict(zip(names, found, strict=True))
        return [values[name] for name in self.wanted]

    @cached_property
    def _reference(self) -> Any:
        return ReferenceEvaluator(self._model)

    def _open(self) -> Any:
        try:
            return open_session(self._model.SerializeToString(), threads=1, folder=self._folder)
        except Exception as error:
            if "NOT_IMPLEMENTED" in str(error) or "NotImplemented" in type(error).__name__:
                return None
            raise cannot_run(error, "changes to it cannot be verified") from error


def open_session(
    model: bytes | str, level: str = "ENABLE_BASIC", *, threads: int = 0, folder: Path | None = None
) -> Any:
    """Open a session of onnxruntime for a serialized model or a path, at one of its optimization levels: those after
    ENABLE_BASIC round numbers that the model does not round, near quantized weights for example."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    options.intra_op_num_threads = threads
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    if folder is not None:
        options.add_session_config_entry(BESIDE, str(folder.resolve()))
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def cannot_run(error: Exception, consequence: str) -> LoadError:
    return LoadError(f"onnxruntime cannot run the model, so {consequence}: {first_line(error)}")


def drop_unused(model: ModelProto) -> None:
    """Remove nodes and stored tensors that no output needs, in place. The order of the nodes does not matter."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output if name}
    wanted = {value.name for value in graph.output}
    waiting = list(wanted)
    while waiting:
        maker = makers.get(waiting.pop())
        if maker is not None:
            read = free_names([maker], set())
            waiting += read - wanted
            wanted |= read
    drop_items(graph.node, lambda node: wanted.isdisjoint(node.output))
    wanted |= {value.name for value in graph.input}
    drop_items(graph.initializer, lambda tensor: tensor.name not in wanted)


def drop_items(items: Any, is_dropped: Callable[[Any], bool]) -> None:
    """Remove some messages from a repeated field, in place."""
    for i in reversed(range(len(items))):
        if is_dropped(items[i]):
            del items[i]


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


def draw(
    model: ModelProto,
    unrunnable: UnrunnableOperators,
    *,
    shapes: Mapping[str, Shape],
    limits: Mapping[str, int],
    seed: int,
) -> dict[str, Array]:
    """Draw random inputs of these shapes, and results of unrunnable operators: noise for floats; for integers, rows of
    tables, or ones (a mask that hides nothing)."""
    dice = np.random.default_rng(seed)
    shapes = {**shapes, **unrunnable.shapes}
    types = {**{value.name: value.type for value in model.graph.input}, **unrunnable.results}
    feeds: dict[str, Array] = {}
    for name, kind in types.items():
        if name not in shapes:
            continue
        if not kind.HasField("tensor_type"):
            raise UsageError(f"input {name!r} is not a tensor, so no random values can be drawn for it")
        if kind.tensor_type.elem_type == TensorProto.STRING:
            raise UsageError(f"input {name!r} is text, so no random values can be drawn for it")
        dtype = helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)
        if dtype.kind in "iub":
            limit = limits.get(name)
            feeds[name] = (dice.integers(0, limit, shapes[name]) if limit else np.ones(shapes[name])).astype(dtype)
        else:
            feeds[name] = dice.standard_normal(shapes[name]).astype(dtype)
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
