"""Stored tensors of a model: where each is stored, and which operator uses it first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

Key = tuple[str | int, ...]
"""Where a tensor is stored: the path through subgraphs or into a function, then its name."""


@dataclass(frozen=True)
class User:
    """The first operator that uses a tensor, and as which of its inputs."""

    node: NodeProto
    position: int


StoredTensor = tuple[Key, TensorProto | SparseTensorProto, User | None]


def tensors(model: ModelProto) -> Iterator[StoredTensor]:
    """Yield every stored tensor with its key and the first operator that uses it."""
    yield from _in_graph(model.graph, ())
    for function in model.functions:
        yield from _in_nodes(function.node, ("function", function.domain, function.name, function.overload))


def stored_constant(node: NodeProto) -> TensorProto | SparseTensorProto | None:
    """Return the tensor of a Constant node, None for any other node."""
    tensor: TensorProto | SparseTensorProto | None = None
    for attribute in node.attribute if node.op_type == "Constant" else ():
        if attribute.name == "value":
            tensor = attribute.t
        if attribute.name == "sparse_value":
            tensor = attribute.sparse_tensor
    return tensor


def _in_graph(graph: GraphProto, path: Key) -> Iterator[StoredTensor]:
    users = _users(graph.node)
    for tensor in graph.initializer:
        yield (*path, tensor.name), tensor, users.get(tensor.name)
    for sparse in graph.sparse_initializer:
        yield (*path, sparse.values.name), sparse, users.get(sparse.values.name)
    yield from _in_nodes(graph.node, path)


def _in_nodes(nodes: Sequence[NodeProto], path: Key) -> Iterator[StoredTensor]:
    users = _users(nodes)
    for position, node in enumerate(nodes):
        tensor = stored_constant(node)
        if tensor is not None:
            yield (*path, node.output[0]), tensor, users.get(node.output[0])
        yield from tensors_inside(node, path, position)


def tensors_inside(node: NodeProto, path: Key, position: int) -> Iterator[StoredTensor]:
    """Yield the tensors in the subgraphs of a node; `path` is that of the graph that the node is in."""
    for attribute in node.attribute:
        place = (*path, position, attribute.name)
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
