"""Find where a network is cut, or would be cut first, in terms of whole nodes."""

from __future__ import annotations

from collections.abc import Mapping

from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Contract, Source, Weight


def layer_of(graph: Graph, node: int) -> str | None:
    """Return the layer whose weight a node contracts with."""
    if not isinstance(graph.nodes[node].op, Contract):
        return None
    weight = graph.nodes[graph.nodes[node].inputs[1]].op
    return graph.layer_of(weight.layer) if isinstance(weight, Weight) else None


def find_cut(graph: Graph, alive: bytes) -> str | None:
    """Return the last place that a signal reaches but does not pass, among those that lead to an output."""
    leads = set(graph.outputs)
    for i in reversed(range(len(graph.nodes))):
        if i not in leads:
            continue
        inputs = graph.nodes[i].inputs
        leads.update(inputs)
        if inputs and not alive[i] and any(alive[k] for k in inputs):
            return layer_of(graph, i) or graph.nodes[i].name or None
    return None


def find_narrowest(graph: Graph, alive: bytes, active: Mapping[str, int]) -> str | None:
    """Return the layer with the fewest active connections among those on every path; the first of several."""
    idle = frozenset(name for name, number in active.items() if not number)
    # The layers on every path rarely change from one analysis of a model to the next.
    state, passed = graph.cache.get("passed", (None, []))
    if state != (alive, idle):
        passed = _passed_by_all(graph, alive, idle)
        graph.cache["passed"] = (alive, idle), passed
    return min(passed, key=active.__getitem__, default=None)


def _passed_by_all(graph: Graph, alive: bytes, idle: frozenset[str]) -> list[str]:
    """Return the layers on every path: those through which as many paths run as there are in all."""
    layers = [None if step.weight is None else graph.layer_of(step.weight[0].layer) for step in graph.steps]
    to, onward = [0] * len(graph.nodes), [0] * len(graph.nodes)
    for i, step in enumerate(graph.steps):
        ways = 1 if isinstance(step.op, Source) else sum([to[k] for k in step.values])
        if alive[i] and layers[i] not in idle:
            to[i] = ways
    for i in graph.outputs:
        onward[i] += 1
    for i in reversed(range(len(graph.nodes))):
        if to[i]:
            for k in graph.steps[i].values:
                onward[k] += onward[i]
    total = sum(to[i] for i in graph.outputs)
    return [name for i, name in enumerate(layers) if name and total and to[i] * onward[i] == total]
