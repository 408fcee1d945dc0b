"""Shapes of values that cannot be computed: what the model declares, what onnx's shape inference finds, and guesses,
each stated in a note. Inference is guarded against calls of functions that multiply, and integer constants that grow
without limit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto

from effsparse_cli.formats.onnx.lowering.budget import DEEPEST
from effsparse_cli.formats.onnx.proto import subgraphs
from effsparse_cli.graph.primitives import Shape

UNKNOWN_SIZE = 8
SMALL = 1024

MOST_CALLED = 50_000
"""Operators that inference may visit, counted each time."""
MOST_PROPAGATED = 1 << 16
"""Elements of an integer constant that inference may compute."""


@dataclass(eq=False)
class Guesses:
    """Guessed shapes; `made` is True after the first guess. Those of a loop's first iteration are `remembered`."""

    model: ModelProto
    inputs: Mapping[str, Shape]
    dims: Mapping[str, int]
    notes: list[str] = field(default_factory=list)
    made: bool = False
    remembered: dict[str, Shape] = field(default_factory=dict)
    _inferred: dict[str, TypeProto] | None = None

    def shape(self, name: str, likely: Shape) -> Shape:
        """Return the shape of a value; `likely` if not even its rank is known."""
        if not name:
            return ()
        if name in self.remembered:
            self.made = True
            return self.remembered[name]
        if self._inferred is None:
            self._inferred = _infer(self.model, self.inputs)
        kind = self._inferred.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            self.made = True
            self.notes.append(f"the shape of {name!r} is unknown until the model runs: {list(likely)} was assumed")
            return likely
        sizes, certain = [], True
        for dim in kind.tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                sizes.append(max(dim.dim_value, 0))
            elif dim.dim_param in self.dims:
                sizes.append(self.dims[dim.dim_param])
            else:
                sizes.append(UNKNOWN_SIZE)
                certain = False
        if not certain:
            self.made = True
            self.notes.append(f"the shape of {name!r} depends on values: {sizes} was assumed")
        return tuple(sizes)


def _infer(model: ModelProto, inputs: Mapping[str, Shape]) -> dict[str, TypeProto]:
    """Infer types for a copy of the model with concrete inputs and without its large tensors."""
    light = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = light.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(model.graph.node)
    graph.value_info.extend(model.graph.value_info)
    graph.output.extend(model.graph.output)
    for value in model.graph.input:
        kind, shape = value.type.tensor_type.elem_type, inputs.get(value.name)
        concrete = value if shape is None else onnx.helper.make_tensor_value_info(value.name, kind, shape)
        graph.input.append(concrete)
    listed = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.ByteSize() <= SMALL and not tensor.external_data:
            graph.initializer.append(tensor)
        elif tensor.name not in listed:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    found: dict[str, TypeProto] = {}
    _collect(model.graph, found)
    # Inference only helps: it raises many types of errors, and fails on models that run.
    with contextlib.suppress(Exception):
        _collect(infer_shapes(light).graph, found)
    return found


def _collect(graph: GraphProto, found: dict[str, TypeProto]) -> None:
    for value in [*graph.output, *graph.value_info, *graph.input]:
        if value.type.HasField("tensor_type"):
            found[value.name] = value.type
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _collect(attribute.g, found)


def infer_shapes(model: ModelProto) -> ModelProto:
    """Return the model with inferred shapes. The model is changed if its functions have to be dropped."""
    if explosive(model):
        del model.functions[:]
    return onnx.shape_inference.infer_shapes(model, data_prop=not _grows(model))


def explosive(model: ModelProto) -> bool:
    """Whether calls of functions expand to too many operators, or never end."""
    sizes = _sizes(model)
    return sizes is None or sum(sizes.get(_key(node), 1) for node in _nested(model.graph.node)) > MOST_CALLED


def _key(node: NodeProto) -> tuple[str, str, str]:
    return node.domain, node.op_type, node.overload


def _nested(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            yield from _nested(inner.node)


def _sizes(model: ModelProto) -> dict[tuple[str, str, str], int] | None:
    """Return the number of operators that a call of each function expands to; None if calls are nested too deeply or
    recursive."""
    functions: dict[tuple[str, str, str], FunctionProto] = {(f.domain, f.name, f.overload): f for f in model.functions}
    calls = {key: [_key(node) for node in _nested(function.node)] for key, function in functions.items()}
    sizes = dict.fromkeys(functions, 0)
    for _ in range(DEEPEST):
        grown = {key: sum(1 + min(sizes.get(name, 0), MOST_CALLED) for name in names) for key, names in calls.items()}
        if grown == sizes:
            return sizes
        sizes = grown
    return None


def _grows(model: ModelProto) -> bool:
    """Whether a constant may become much larger than the stored ones. Only Concat makes constants larger."""
    if any(node.op_type == "Concat" for function in model.functions for node in _nested(function.node)):
        return True
    sizes: dict[str, int] = {t.name: max(t.dims, default=1) for t in model.graph.initializer}
    for node in _nested(model.graph.node):
        given = [sizes.get(name, 16) for name in node.input]
        size = sum(given) if node.op_type == "Concat" else max(given, default=16)
        if size > MOST_PROPAGATED:
            return True
        sizes.update(dict.fromkeys(node.output, size))
    return False
