"""The network that a report draws: inputs, uses of layers, the junctions where paths meet, and outputs. Everything else
in a graph (reshape, relu, norms, pooling) is contracted: what leads to it leads to what follows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from effsparse_cli.graph.graph import Graph, Node
from effsparse_cli.graph.primitives import Concat, Contract, Opaque, Primitive, Product, Scan, Source, Weight

Kind = Literal["input", "layer", "junction", "output"]
Heads = frozenset[int]
"""The nodes of the network that lead to a value, with none between."""


class NetworkNode(NamedTuple):
    """`name` is that of the input, the layer or the output, or says what a junction does. `module` has the components
    of the path of the module that holds it."""

    kind: Kind
    name: str
    module: tuple[str, ...] = ()


class Network(NamedTuple):
    """`nodes` are in topological order, and every edge points from an earlier to a later one. A layer has one node per
    operator that uses it."""

    nodes: tuple[NetworkNode, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()


def find_network(graph: Graph) -> Network:
    """A Scan shows one step of its body: its layers, and one junction for its results."""
    drawing = _Drawing(graph)
    heads = drawing.walk(graph, None)
    for number, output in enumerate(graph.outputs, 1):
        drawing.add("output", "output" if len(graph.outputs) == 1 else f"output {number}", (), heads[output])
    return drawing.finish()


class _Drawing:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: list[NetworkNode] = []
        self._before: list[Heads] = []
        self._inside: dict[int, Heads] = {}

    def add(self, kind: Kind, name: str, module: tuple[str, ...], before: Heads) -> Heads:
        self._nodes.append(NetworkNode(kind, name, module))
        self._before.append(self._enter(before))
        return frozenset([len(self._nodes) - 1])

    def walk(self, graph: Graph, given: Sequence[Heads] | None) -> list[Heads]:
        """Return the heads of every value. In the body of a Scan the sources are given, and paths meet without a
        junction: the whole Scan is one."""
        heads: list[Heads] = []
        waiting = iter(given or ())
        for node in graph.nodes:
            before = _unite(heads[i] for i in node.inputs)
            layers = list(self._layers(graph, node))
            if isinstance(node.op, Source):
                heads.append(self.add("input", node.op.name, (), before) if given is None else next(waiting))
            elif isinstance(node.op, Scan):
                heads.append(self._join("scan", node, self._scan(node.op, [heads[i] for i in node.inputs])))
            elif layers:
                used = _unite(self.add("layer", name, _module_of(name, node), before) for name in layers)
                heads.append(self._join(_word(node.op), node, used))
            elif given is None:
                heads.append(self._join(_word(node.op), node, before))
            else:
                heads.append(before)
        return heads

    def finish(self) -> Network:
        """Leave out junctions that lead nowhere."""
        used: set[int] = set()
        for i in reversed(range(len(self._nodes))):
            if i in used or self._nodes[i].kind != "junction":
                used |= {i, *self._before[i]}
        places = {i: place for place, i in enumerate(sorted(used))}
        edges = [(places[k], places[i]) for i in places for k in sorted(self._before[i])]
        return Network(tuple(self._nodes[i] for i in places), tuple(edges))

    def _join(self, word: str, node: Node, before: Heads) -> Heads:
        """Add a junction if several paths meet. It is in the module of the latest one, or in one around that if the
        operator is called there."""
        if len(before) < 2 or len(known := self._enter(before)) < 2:
            return before
        module, own = self._nodes[max(known)].module, tuple(_split(node.name))
        return self.add("junction", word, own if own and own == module[: len(own)] else module, known)

    def _scan(self, op: Scan, inputs: Sequence[Heads]) -> Heads:
        """A state has a head of its own, a negative number: what an earlier step has left there depends on everything
        that enters the Scan, for what is inside the body."""
        mark = -1 - len(self._inside)
        self._inside[mark] = _unite(inputs)
        given = [heads | {mark} if k < op.states else heads for k, heads in enumerate(inputs)]
        heads = self.walk(op.body, given)
        return _unite(heads[i] for i in op.body.outputs) - {mark}

    def _enter(self, before: Heads) -> Heads:
        while marks := {i for i in before if i < 0}:
            before = _unite([before - marks, *(self._inside[mark] for mark in marks)])
        return before

    def _layers(self, graph: Graph, node: Node) -> Iterator[str]:
        """Yield the layers that an operator uses. A mixed weight uses all that it is computed from."""
        for weight in (graph.nodes[i].op for i in node.inputs):
            if isinstance(weight, Weight):
                mixed = self._graph.mixed_weights.get(weight.layer)
                yield from [weight.layer] if mixed is None else mixed.sources


def _word(op: Primitive) -> str:
    """Return the name of a junction."""
    match op:
        case Opaque(label):
            return label
        case Concat():
            return "concat"
        case Product() | Contract():
            return "multiply"
        case _:
            return "add"


def _unite(heads: Iterable[Heads]) -> Heads:
    return frozenset().union(*heads)


def _module_of(layer: str, node: Node) -> tuple[str, ...]:
    """Return the module path of `layer1.0.conv1`, `layer1.0.conv1.weight` or `/layer1/0/conv1/weight`: layer1, 0. A
    name without a path, which exporters invent, has that of its operator: `/layer1/0/conv1/Conv`."""
    parts = _split(layer)
    if parts[-1:] == ["weight"]:
        parts.pop()
    if len(parts) < 2 and "::" in layer:
        parts = _split(node.name)[:-1]
    return tuple(parts[:-1])


def _split(name: str) -> list[str]:
    return [part for part in re.split(r"[./]", name) if part]
