"""Subgraphs of nodes, and the outer names that they use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, NodeProto


def label(node: NodeProto) -> str:
    return f"{node.op_type} {node.name!r}" if node.name else f"the {node.op_type} with output {list(node.output)[:1]}"


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def free_names(nodes: Iterable[NodeProto], made: set[str]) -> set[str]:
    """Return the names that nodes and their subgraphs use and that come from outside."""
    made, free = set(made), set[str]()
    for node in nodes:
        free.update(name for name in node.input if name and name not in made)
        for inner in subgraphs(node):
            free.update(name for name in _free_in(inner) if name not in made)
        made.update(node.output)
    return free


def _free_in(graph: GraphProto) -> set[str]:
    local = local_names(graph)
    made = {name for node in graph.node for name in node.output}
    return free_names(graph.node, local) | {value.name for value in graph.output} - local - made


def local_names(graph: GraphProto) -> set[str]:
    """Return the names that a graph has before its first node."""
    stored = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return stored | {value.name for value in graph.input}
