"""Operators that onnxruntime cannot run, removed from a model: their inputs become outputs of the model, and their
outputs become inputs. Two models that agree on all of these, for any input, compute the same, provided that the
operators depend on nothing but their inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import onnx.defs
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, shape_inference

from effsparse_cli.folding.onnx.quantizers import can_expand, expand
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import free_names, subgraphs
from effsparse_cli.graph.primitives import Shape

STANDARD = ("", "ai.onnx.ml")
OF_ONNXRUNTIME = ("com.microsoft", "ai.onnx.training", "ai.onnx.preview.training")
SMALL = 1024
"""Bytes of a stored tensor that may hold sizes."""
Functions = set[tuple[str, str]]


@dataclass(frozen=True)
class UnrunnableOperators:
    """The operators of a model that onnxruntime cannot run.

    `results` are the types of their outputs by name, `dependents` all values that depend on these. Nothing depends on
    the results in `idle`, so inputs of their operators may change. If some of the operators can be `lowered`, parts of
    their inputs and results may be dead and change, so neither can be compared.
    """

    labels: tuple[str, ...] = ()
    results: Mapping[str, TypeProto] = field(default_factory=dict)
    dependents: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    lowered: bool = False

    @property
    def shapes(self) -> dict[str, Shape]:
        return {
            name: tuple(int(dim.dim_value) for dim in kind.tensor_type.shape.dim) for name, kind in self.results.items()
        }

    def inputs(self, model: ModelProto) -> list[str]:
        """Return the inputs of these operators, in order; another form of the model may have other names."""
        return [name for writes, reads in self.operators(model) if not writes <= self.idle for name in reads]

    def compared(self, model: ModelProto, outputs: Sequence[str]) -> list[str]:
        """Return the values that two forms of a model must agree on: outputs, and inputs of these operators."""
        return [name for name in (*outputs, *self.inputs(model)) if not self.lowered or name not in self.dependents]

    def operators(self, model: ModelProto) -> list[tuple[set[str], list[str]]]:
        """Return the outputs and the inputs of each of these operators."""
        found = []
        for node in model.graph.node:
            writes = {name for name in node.output if name}
            if writes & set(self.results):
                given = [name for name in node.input if name]
                found.append((writes, given + sorted(free_names([node], set()) - set(given))))
        return found

    def remove_from(self, model: ModelProto) -> ModelProto:
        """Return a copy without these operators and with QONNX quantizers expanded, or a model that needs neither."""
        if not self.labels and not any(can_expand(node) for node in model.graph.node):
            return model
        rest = deepcopy(model)
        del rest.graph.node[:]
        for node in model.graph.node:
            if not set(node.output) & set(self.results):
                rest.graph.node.extend(expand(node) if can_expand(node) else [node])
        rest.graph.input.extend(ValueInfoProto(name=name, type=kind) for name, kind in self.results.items())
        listed = {value.name for value in rest.graph.output}
        more = dict.fromkeys(name for name in self.inputs(model) if name not in listed)
        rest.graph.output.extend(ValueInfoProto(name=name) for name in more)
        return rest


def find_unrunnable(model: ModelProto, shapes: Mapping[str, Shape]) -> UnrunnableOperators:
    """`shapes` are those of the model's inputs. The result of an unrunnable operator has the shape that the file
    declares or onnx infers, or else that of its first input."""
    functions = _runnable_functions(model)
    places = [i for i, node in enumerate(model.graph.node) if any(True for _ in _unrunnable_in(node, functions))]
    if not places:
        return UnrunnableOperators()
    nodes = [model.graph.node[i] for i in places]
    kinds = _types(model, shapes, places)
    operators = [each for node in nodes for each in _unrunnable_in(node, functions)]
    labels = {f"{each.domain}.{each.op_type}".lstrip("."): None for each in operators}
    writes = {name: kinds.get(name, _float(())) for node in nodes for name in node.output if name}
    known = {name for node in nodes if find_operator(node) is not None for name in node.output}
    return UnrunnableOperators(
        tuple(labels), writes, frozenset(_dependents(model, set(writes))), frozenset(known), bool(known)
    )


def _runnable_functions(model: ModelProto) -> Functions:
    """Return the model's own functions that use no unrunnable operators, directly or through others."""
    known = {(function.domain, function.name) for function in model.functions}
    while True:
        bad = {
            (function.domain, function.name)
            for function in model.functions
            if any(can_expand(node) or any(True for _ in _unrunnable_in(node, known)) for node in function.node)
        }
        if not bad & known:
            return known
        known -= bad


def _unrunnable_in(node: NodeProto, functions: Functions) -> Iterator[NodeProto]:
    """Yield the unrunnable operators among the node itself and those in its subgraphs."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    standard = domain in STANDARD and onnx.defs.has(node.op_type, domain)
    known = domain in OF_ONNXRUNTIME or (node.domain, node.op_type) in functions or can_expand(node)
    if not standard and not known:
        yield node
    for graph in subgraphs(node):
        # Nothing is expanded inside subgraphs.
        yield from (inner for inner in graph.node if can_expand(inner))
        for inner in graph.node:
            yield from _unrunnable_in(inner, functions)


def _dependents(model: ModelProto, start: set[str]) -> set[str]:
    found = set(start)
    changed = True
    while changed:
        changed = False
        for node in model.graph.node:
            if not found >= set(node.output) and free_names([node], set()) & found:
                found.update(node.output)
                changed = True
    return found


def _types(model: ModelProto, shapes: Mapping[str, Shape], unknown: Collection[int]) -> dict[str, TypeProto]:
    """Infer types for a model in which every unrunnable operator passes on its first input."""
    light = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = light.graph
    graph.name = "types"
    for i, node in enumerate(model.graph.node):
        if i not in unknown:
            graph.node.append(node)
        elif any(node.input):
            first = next(name for name in node.input if name)
            graph.node.extend(helper.make_node("Identity", [first], [name]) for name in node.output if name)
    for value in model.graph.input:
        kind = value.type.tensor_type.elem_type
        known = helper.make_tensor_value_info(value.name, kind, shapes[value.name]) if value.name in shapes else value
        graph.input.append(known)
    listed = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if tensor.ByteSize() <= SMALL and not tensor.external_data:
            graph.initializer.append(tensor)
        elif tensor.name not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    declared = [*model.graph.value_info, *model.graph.output]
    graph.value_info.extend(value for value in declared if _is_complete(value.type))
    try:
        inferred = shape_inference.infer_shapes(light)
    except Exception:  # onnx's errors share no class; what is declared still counts
        inferred = light
    found = {value.name: value.type for value in (*inferred.graph.value_info, *graph.value_info)}
    return {name: kind if _is_complete(kind) else _float(()) for name, kind in found.items()}


def _is_complete(kind: TypeProto) -> bool:
    tensor = kind.tensor_type
    return tensor.HasField("shape") and tensor.elem_type != 0 and all(dim.dim_value > 0 for dim in tensor.shape.dim)


def _float(shape: Shape) -> TypeProto:
    return helper.make_tensor_type_proto(int(TensorProto.FLOAT), shape)
