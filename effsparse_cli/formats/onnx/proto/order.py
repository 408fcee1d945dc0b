"""Sorts the nodes of graphs and functions topologically. onnxruntime loads files with any order, so exporters and
editors write them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from pathlib import Path

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.onnx.proto.subgraphs import free_names, label, local_names, subgraphs


def sort_model(model: ModelProto, path: Path) -> None:
    """Sort every graph and function in place, unless it is sorted already. A cycle is an error."""
    _sort_graph(model.graph, [], path)
    for function in model.functions:
        _sort(function, [set(function.input)], path)


def _sort_graph(graph: GraphProto, outer: list[set[str]], path: Path) -> None:
    _sort(graph, [*outer, local_names(graph)], path)


def _sort(owner: GraphProto | FunctionProto, given: list[set[str]], path: Path) -> None:
    """`given` are the names that exist before the first node."""
    made = {name for node in owner.node for name in node.output if name}
    for node in owner.node:
        for inner in subgraphs(node):
            _sort_graph(inner, [*given, made], path)
    uses = [free_names([node], set()) for node in owner.node]
    order = _sorted(owner.node, uses, given, path)
    if order is not None:
        nodes = list(owner.node)
        del owner.node[:]
        owner.node.extend(nodes[i] for i in order)


def _sorted(
    nodes: Sequence[NodeProto], uses: Sequence[set[str]], given: Sequence[set[str]], path: Path
) -> list[int] | None:
    """Return positions in topological order, as close to the stored order as possible; None if it is sorted already."""
    makers: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if not any(name in names for names in given):
                makers.setdefault(name, i)
    needed = [{makers[name] for name in names if name in makers} for names in uses]
    if all(max(before, default=-1) < i for i, before in enumerate(needed)):
        return None
    followers: list[list[int]] = [[] for _ in nodes]
    for i, before in enumerate(needed):
        for j in before:
            followers[j].append(i)
    waiting = [len(before) for before in needed]
    ready = [i for i, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for j in followers[i]:
            waiting[j] -= 1
            if waiting[j] == 0:
                heapq.heappush(ready, j)
    if len(order) < len(nodes):
        first = next(i for i, count in enumerate(waiting) if count > 0)
        raise LoadError(f"{path}: the operators form a cycle through or before {label(nodes[first])}.")
    return order
