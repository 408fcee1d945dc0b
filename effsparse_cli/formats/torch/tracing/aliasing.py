"""Find which values of a traced graph share memory, from the schemas of its operators. Lowering follows in-place
operators by itself, unless one changes a value that is later read through a view."""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from torch import fx

from effsparse_cli.formats.torch.operators import find_operator


def writes(node: fx.Node) -> list[fx.Node]:
    """Return the nodes that an operator writes to."""
    return [operand for operand, written in _aliased_operands(node) if written]


def written_nodes(graph: fx.Graph) -> set[fx.Node]:
    """Return all nodes that share memory with a value that is written to."""
    shared = _groups(graph, in_place_only=False)
    written = {shared[operand] for node in graph.nodes for operand in writes(node)}
    return {node for node in graph.nodes if shared[node] in written}


def needs_functional_form(graph: fx.Graph, inputs: set[str]) -> bool:
    """Whether a value is written to whose memory is read afterwards through another node. Constants are evaluated with
    their memory shared, so only values that an input reaches and stored tensors matter."""
    shared, same = _groups(graph, in_place_only=False), _groups(graph, in_place_only=True)
    order = {node: i for i, node in enumerate(graph.nodes)}
    reached = _reached(graph, inputs) | {n for n in graph.nodes if n.op == "placeholder"}
    for node in graph.nodes:
        for operand in writes(node):
            others = [m for m in graph.nodes if shared[m] is shared[operand] and same[m] is not same[operand]]
            later = [m for m in others if order[m] < order[node] < max((order[u] for u in m.users), default=-1)]
            if later and any(m in reached for m in (node, operand, *others)):
                return True
    return any(
        needs_functional_form(body, {n.name for n in body.nodes if n.op == "placeholder"}) for body in _bodies(graph)
    )


def _bodies(graph: fx.Graph) -> Iterator[fx.Graph]:
    """Yield the graphs that higher-order operators run."""
    for node in graph.nodes:
        held = getattr(graph.owning_module, str(node.target), None) if node.op == "get_attr" else None
        body = getattr(held, "graph", None)
        if isinstance(body, fx.Graph):
            yield body


def _aliased_operands(node: fx.Node) -> Iterator[tuple[fx.Node, bool]]:
    """Yield the operands that the results may share memory with, and whether the operator writes to them."""
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        yield node.args[0], False
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    for i, argument in enumerate(node.target._schema.arguments):
        operand = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        if isinstance(operand, fx.Node) and argument.alias_info is not None:
            yield operand, argument.alias_info.is_write


def _groups(graph: fx.Graph, in_place_only: bool) -> dict[fx.Node, fx.Node]:
    """Return a representative of each node's group: nodes that share memory, or are the same value."""
    parent: dict[fx.Node, fx.Node] = {node: node for node in graph.nodes}

    def root(node: fx.Node) -> fx.Node:
        while parent[node] is not node:
            node = parent[node]
        return node

    for node in graph.nodes:
        for operand, written in _aliased_operands(node):
            if written or not in_place_only:
                parent[root(node)] = root(operand)
    return {node: root(node) for node in graph.nodes}


def _reached(graph: fx.Graph, inputs: set[str]) -> set[fx.Node]:
    reached: set[fx.Node] = set()
    for node in graph.nodes:
        operator = find_operator(node.target) if isinstance(node.target, torch._ops.OpOverload) else None
        shape_only = operator is not None and operator.shape_only
        depends = not shape_only and any(operand in reached for operand in node.all_input_nodes)
        if depends or node.name in inputs:
            reached.add(node)
    return reached
