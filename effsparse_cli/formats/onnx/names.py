"""Names of layers: every stored tensor of a model in, the name that a report uses out. Exporters keep most names
("fc1.weight" is the layer "fc1"); where they made one up ("onnx::MatMul_12"), the operator's own name tells more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

Key = tuple[str | int, ...]
"""Where a tensor is stored: the way through subgraphs or into a function, then its name."""

MADE_UP = re.compile(r"onnx::\w+|\d+|val_\d+\w*|(.*[/_])?[Cc]onstant(_\d+)?|.*_output_0")
OPERATOR = re.compile(r"[A-Z][A-Za-z]*")
NO_WEIGHTS = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.STRING)
JOINS = ("Add", "Sub", "Div", "Where", "Concat", "Expand")
RECURRENT = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")


def tensors(model: ModelProto) -> Iterator[tuple[Key, TensorProto | SparseTensorProto, User | None]]:
    """Every stored tensor with its key and the name of the first operator that uses it."""
    yield from _in_graph(model.graph, ())
    for function in model.functions:
        yield from _in_nodes(function.node, ("function", function.domain, function.name, function.overload))


def layer_names(model: ModelProto) -> dict[Key, str]:
    """One name per stored tensor, each different: later ones of the same name get a number. Matrices come first."""
    found = sorted(tensors(model), key=lambda item: len(item[1].dims) < 2)
    names: dict[Key, str] = {}
    taken: set[str] = set()
    for key, tensor, user in found:
        name = layer_name(str(key[-1]), user if _may_be_weight(tensor, user) else None)
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}#{number}", number + 1
        taken.add(unique)
        names[key] = unique
    return names


def _may_be_weight(tensor: TensorProto | SparseTensorProto, user: User | None) -> bool:
    """Indices, shapes and what is only added keep the names that the file gives them, and leave the others theirs."""
    kind = tensor.data_type if isinstance(tensor, TensorProto) else tensor.values.data_type
    return len(tensor.dims) > 1 and kind not in NO_WEIGHTS and user is not None and user.node.op_type not in JOINS


def layer_name(tensor: str, user: User | None) -> str:
    tensor = tensor.removesuffix("_quantized")
    if user is not None and MADE_UP.fullmatch(tensor):
        module = _module(user.node)
        role = "." + "WRB"[user.position - 1] if user.node.op_type in RECURRENT and 1 <= user.position <= 3 else ""
        return module + role if module else tensor
    return tensor.removesuffix(".weight") or tensor


@dataclass(frozen=True)
class User:
    """The first operator that uses a tensor, and as which of its inputs."""

    node: NodeProto
    position: int


def _module(node: NodeProto) -> str:
    """torch's exporters leave it in the metadata, or in the name: "/encoder/encoder.0/linear1/MatMul"."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            scopes = re.findall(r"'([^']*)'", entry.value)
            return scopes[-2] if len(scopes) > 1 else ""
    if not node.name.startswith("/"):
        return ""
    path: list[str] = []
    for part in node.name.strip("/").split("/"):
        if path and part.startswith(path[-1] + "."):
            path.pop()
        path.append(part)
    path[-1] = path[-1].removesuffix("_quant")
    return ".".join(path[:-1] if OPERATOR.fullmatch(path[-1]) else path)


def node_key(path: Key, node: NodeProto) -> Key:
    return (*path, node.output[0])


def graph_path(path: Key, position: int, attribute: str) -> Key:
    return (*path, position, attribute)


def stored_constant(node: NodeProto) -> TensorProto | SparseTensorProto | None:
    found: TensorProto | SparseTensorProto | None = None
    for attribute in node.attribute if node.op_type == "Constant" else ():
        if attribute.name == "value":
            found = attribute.t
        if attribute.name == "sparse_value":
            found = attribute.sparse_tensor
    return found


def _in_graph(graph: GraphProto, path: Key) -> Iterator[tuple[Key, TensorProto | SparseTensorProto, User | None]]:
    users = _users(graph.node)
    for tensor in graph.initializer:
        yield (*path, tensor.name), tensor, users.get(tensor.name)
    for sparse in graph.sparse_initializer:
        yield (*path, sparse.values.name), sparse, users.get(sparse.values.name)
    yield from _in_nodes(graph.node, path)


def _in_nodes(
    nodes: Sequence[NodeProto], path: Key
) -> Iterator[tuple[Key, TensorProto | SparseTensorProto, User | None]]:
    users = _users(nodes)
    for position, node in enumerate(nodes):
        tensor = stored_constant(node)
        if tensor is not None:
            yield node_key(path, node), tensor, users.get(node.output[0])
        yield from tensors_inside(node, path, position)


def tensors_inside(
    node: NodeProto, path: Key, position: int
) -> Iterator[tuple[Key, TensorProto | SparseTensorProto, User | None]]:
    """The tensors that the graphs inside an operator hold; `path` leads to the operator's own graph."""
    for attribute in node.attribute:
        place = graph_path(path, position, attribute.name)
        if attribute.type == AttributeProto.GRAPH:
            yield from _in_graph(attribute.g, place)
        elif attribute.type == AttributeProto.GRAPHS:
            for i, inner in enumerate(attribute.graphs):
                yield from _in_graph(inner, (*place, i))


def _users(nodes: Sequence[NodeProto]) -> dict[str, User]:
    users: dict[str, User] = {}
    for node in nodes:
        for position, name in enumerate(node.input):
            if name not in users:
                users[name] = User(node, position)
    return users
