"""Models with operators that onnxruntime does not know, made to run: these operators are cut out, what they read
becomes an output and what they write an input. Two models that agree on all of these, whatever is fed in, compute the
same, provided that the operators themselves depend on nothing but their inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx.defs
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, shape_inference

from effsparse_cli.folding.onnx.quantizers import can_expand, expand
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto.subgraphs import free_names, subgraphs
from effsparse_cli.graph.primitives import Shape

STANDARD = ("", "ai.onnx.ml")
OF_ONNXRUNTIME = ("com.microsoft", "ai.onnx.training", "ai.onnx.preview.training")
SMALL = 1024
"""Stored tensors up to this many bytes may say sizes."""
Functions = set[tuple[str, str]]


@dataclass(frozen=True)
class Apart:
    """The unknown operators of a model, and what they write, by name. `behind` are all values that depend on that.
    Nothing depends on what the `idle` among them write, so that what they read may change. Where the graph knows an
    operator that onnxruntime does not (`known`), parts of what it reads and writes may be dead and change, so that
    neither can be compared."""

    labels: tuple[str, ...] = ()
    writes: Mapping[str, TypeProto] = field(default_factory=dict)
    behind: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    known: bool = False

    @property
    def shapes(self) -> dict[str, Shape]:
        return {
            name: tuple(int(dim.dim_value) for dim in kind.tensor_type.shape.dim) for name, kind in self.writes.items()
        }

    def reads(self, model: ModelProto) -> list[str]:
        """The names of what unknown operators read, in order. Another form of the same model may have other names."""
        return [name for writes, reads in self.operators(model) if not writes <= self.idle for name in reads]

    def compared(self, model: ModelProto, outputs: Sequence[str]) -> list[str]:
        """What two forms of the model have to agree on: outputs, and what unknown operators read."""
        return [name for name in (*outputs, *self.reads(model)) if not self.known or name not in self.behind]

    def operators(self, model: ModelProto) -> list[tuple[set[str], list[str]]]:
        """What each unknown operator writes and reads."""
        found = []
        for node in model.graph.node:
            writes = {name for name in node.output if name}
            if writes & set(self.writes):
                given = [name for name in node.input if name]
                found.append((writes, given + sorted(free_names([node], set()) - set(given))))
        return found

    def cut(self, model: ModelProto) -> ModelProto:
        """A copy without the unknown operators; the model itself where all can be run. QONNX's are written out."""
        if not self.labels and not any(can_expand(node) for node in model.graph.node):
            return model
        rest = ModelProto()
        rest.CopyFrom(model)
        del rest.graph.node[:]
        for node in model.graph.node:
            if not set(node.output) & set(self.writes):
                rest.graph.node.extend(expand(node) if can_expand(node) else [node])
        rest.graph.input.extend(ValueInfoProto(name=name, type=kind) for name, kind in self.writes.items())
        listed = {value.name for value in rest.graph.output}
        more = dict.fromkeys(name for name in self.reads(model) if name not in listed)
        rest.graph.output.extend(ValueInfoProto(name=name) for name in more)
        return rest


def find_unknown(model: ModelProto, shapes: Mapping[str, Shape]) -> Apart:
    """`shapes` are those of the inputs that count. What an unknown operator writes has the shape that the file declares
    or onnx infers, else that of its first input."""
    functions = _known_functions(model)
    places = [i for i, node in enumerate(model.graph.node) if any(True for _ in _strangers(node, functions))]
    if not places:
        return Apart()
    unknown = [model.graph.node[i] for i in places]
    kinds = _types(model, shapes, places)
    strangers = [each for node in unknown for each in _strangers(node, functions)]
    labels = {f"{each.domain}.{each.op_type}".lstrip("."): None for each in strangers}
    writes = {name: kinds.get(name, _float(())) for node in unknown for name in node.output if name}
    known = {name for node in unknown if find_operator(node) is not None for name in node.output}
    return Apart(tuple(labels), writes, frozenset(_behind(model, set(writes))), frozenset(known), bool(known))


def _known_functions(model: ModelProto) -> Functions:
    """The model's own functions, without those that use unknown operators, directly or through others."""
    known = {(function.domain, function.name) for function in model.functions}
    while True:
        bad = {
            (function.domain, function.name)
            for function in model.functions
            if any(can_expand(node) or any(True for _ in _strangers(node, known)) for node in function.node)
        }
        if not bad & known:
            return known
        known -= bad


def _strangers(node: NodeProto, functions: Functions) -> Iterator[NodeProto]:
    """The unknown operators among the node itself and those in graphs inside it."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    standard = domain in STANDARD and onnx.defs.has(node.op_type, domain)
    known = domain in OF_ONNXRUNTIME or (node.domain, node.op_type) in functions or can_expand(node)
    if not standard and not known:
        yield node
    for graph in subgraphs(node):
        # Inside graphs nothing is written out.
        yield from (inner for inner in graph.node if can_expand(inner))
        for inner in graph.node:
            yield from _strangers(inner, functions)


def _behind(model: ModelProto, start: set[str]) -> set[str]:
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
    """Inferred for a model in which every unknown operator hands on its first input."""
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
    graph.value_info.extend(value for value in declared if _is_whole(value.type))
    try:
        inferred = shape_inference.infer_shapes(light)
    except Exception:  # onnx's errors share no class; what is declared still counts
        inferred = light
    found = {value.name: value.type for value in (*inferred.graph.value_info, *graph.value_info)}
    return {name: kind if _is_whole(kind) else _float(()) for name, kind in found.items()}


def _is_whole(kind: TypeProto) -> bool:
    tensor = kind.tensor_type
    return tensor.HasField("shape") and tensor.elem_type != 0 and all(dim.dim_value > 0 for dim in tensor.shape.dim)


def _float(shape: Shape) -> TypeProto:
    return helper.make_tensor_type_proto(int(TensorProto.FLOAT), shape)
