"""Which values of a traced graph share memory, by the operators' schemas: the lowering follows an in-place
operator by itself unless it changes a value that is also seen through a view later on."""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from torch import fx

from effsparse_cli.formats.torch.operators import find_operator


def writes(node: fx.Node) -> list[fx.Node]:
    """The nodes that an operator writes to."""
    return [given for given, written in _arguments(node) if written]


def written_nodes(graph: fx.Graph) -> set[fx.Node]:
    """Everything that shares memory with a value that is written to."""
    shared = _classes(graph, in_place_only=False)
    hit = {shared[given] for node in graph.nodes for given in writes(node)}
    return {node for node in graph.nodes if shared[node] in hit}


def needs_functional_form(graph: fx.Graph, inputs: set[str]) -> bool:
    """Is a value written to whose memory is seen afterwards through another name? Constants of our own are
    evaluated with their memory shared as it was and need nothing; stored tensors must not be written to."""
    shared, same = _classes(graph, in_place_only=False), _classes(graph, in_place_only=True)
    order = {node: i for i, node in enumerate(graph.nodes)}
    reached = _reached(graph, inputs) | {n for n in graph.nodes if n.op == "placeholder"}
    for node in graph.nodes:
        for given in writes(node):
            others = [m for m in graph.nodes if shared[m] is shared[given] and same[m] is not same[given]]
            later = [m for m in others if order[m] < order[node] < max((order[u] for u in m.users), default=-1)]
            if later and any(m in reached for m in (node, given, *others)):
                return True
    return any(needs_functional_form(body, _placeholders(body)) for body in _bodies(graph))


def _bodies(graph: fx.Graph) -> Iterator[fx.Graph]:
    """The graphs that higher-order operators run."""
    for node in graph.nodes:
        held = getattr(graph.owning_module, str(node.target), None) if node.op == "get_attr" else None
        body = getattr(held, "graph", None)
        if isinstance(body, fx.Graph):
            yield body


def _placeholders(graph: fx.Graph) -> set[str]:
    return {node.name for node in graph.nodes if node.op == "placeholder"}


def _arguments(node: fx.Node) -> Iterator[tuple[fx.Node, bool]]:
    """The inputs that an operator's results share memory with, and whether it writes to them."""
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        yield node.args[0], False
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    for i, argument in enumerate(node.target._schema.arguments):
        given = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        if isinstance(given, fx.Node) and argument.alias_info is not None:
            yield given, argument.alias_info.is_write


def _classes(graph: fx.Graph, in_place_only: bool) -> dict[fx.Node, fx.Node]:
    """A representative per node; nodes that share memory (or are one value) have the same."""
    parent: dict[fx.Node, fx.Node] = {node: node for node in graph.nodes}

    def root(node: fx.Node) -> fx.Node:
        while parent[node] is not node:
            node = parent[node]
        return node

    for node in graph.nodes:
        for given, written in _arguments(node):
            if written or not in_place_only:
                parent[root(node)] = root(given)
    return {node: root(node) for node in graph.nodes}


def _reached(graph: fx.Graph, inputs: set[str]) -> set[fx.Node]:
    reached: set[fx.Node] = set()
    for node in graph.nodes:
        operator = find_operator(node.target) if isinstance(node.target, torch._ops.OpOverload) else None
        shape_only = operator is not None and operator.shape_only
        depends = not shape_only and any(given in reached for given in node.all_input_nodes)
        if depends or node.name in inputs:
            reached.add(node)
    return reached
