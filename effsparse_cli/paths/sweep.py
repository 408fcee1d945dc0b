"""The one pass: forward from the sources, backward from the outputs, and at every weight the question which
connections join the two. Works on any graph, in any semiring; a Scan is the same pass over its body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic

from effsparse_cli.graph.graph import Graph, Node
from effsparse_cli.graph.primitives import Constant, Contract, Opaque, Pick, Scan, Shape, Source, Weight
from effsparse_cli.paths import scans
from effsparse_cli.paths.algebra import Arrays, F, Flow, T, Weights
from effsparse_cli.paths.rules import level, ones, pull, push, zeros
from effsparse_cli.paths.scans import Steps, Values, flow_of


class Sweep(Generic[T, F]):
    """One pass over a graph; `uses` is what it found for each use of a weight."""

    def __init__(self, arrays: Arrays[T], weights: Weights[T, F], graph: Graph) -> None:
        self.arrays = arrays
        self.weights = weights
        self.uses: dict[Weight, F] = {}
        sources = [Flow(live, live) for live in (ones(arrays, graph.nodes[i].shape) for i in graph.sources)]
        self.values = self.forward(graph, sources)
        self.backward(graph, self.values, [ones(arrays, graph.nodes[i].shape) for i in graph.outputs])

    def live(self, node: int) -> bool:
        """Does the input reach this value at all?"""
        value = self.values[node]
        flows = value.results if isinstance(value, Steps) else [value] if value is not None else []
        return any(self.arrays.any(flow.live) for flow in flows)

    def forward(self, graph: Graph, sources: Sequence[Flow[T]]) -> Values[T]:
        values: Values[T] = []
        waiting = iter(sources)
        for node in graph.nodes:
            if isinstance(node.op, Source):
                values.append(next(waiting))
            elif isinstance(node.op, Scan):
                values.append(scans.run_forward(self, node.op, [flow_of(values[i]) for i in node.inputs]))
            elif isinstance(node.op, Pick):
                steps = values[node.inputs[0]]
                assert isinstance(steps, Steps)
                values.append(steps.results[node.op.result])
            else:
                values.append(self._value(graph, node, values))
        return values

    def _value(self, graph: Graph, node: Node, values: Values[T]) -> Flow[T] | None:
        arrays, inputs = self.arrays, [graph.nodes[i] for i in node.inputs]
        match node.op:
            case Weight():
                return None
            case Constant(nonzero):
                return Flow(zeros(arrays, node.shape), arrays.lift(nonzero, node.shape))
            case Contract():
                x, weight = flow_of(values[node.inputs[0]]), inputs[1]
                assert isinstance(weight.op, Weight)
                args = (inputs[0].shape, node.op, weight.op, weight.shape)
                live = self.weights.contract(x.live, *args)
                if x.nonzero is x.live:
                    return Flow(live, live)
                return Flow(live, arrays.support(self.weights.contract(x.nonzero, *args)))
            case _:
                flows = [value for i in node.inputs if isinstance(value := values[i], Flow)]
                return push(arrays, node.op, node.shape, flows, _shapes(graph, node))

    def backward(self, graph: Graph, values: Values[T], relevance: Sequence[T]) -> list[T]:
        """From the relevance of the outputs to that of the sources; records every use of a weight."""
        reached: dict[int, list[T]] = {}
        picked: dict[int, dict[int, T]] = {}

        def reach(nodes: Iterable[int], ys: Iterable[T]) -> None:
            for node, y in zip(nodes, ys, strict=True):
                reached.setdefault(node, []).append(y)

        def relevant(i: int) -> T:
            return self.arrays.plus(reached[i]) if i in reached else zeros(self.arrays, graph.nodes[i].shape)

        reach(graph.outputs, relevance)
        for i in reversed(range(len(graph.nodes))):
            node = graph.nodes[i]
            if isinstance(node.op, Scan):
                steps = values[i]
                assert isinstance(steps, Steps)
                reach(node.inputs, scans.run_backward(self, node.op, steps, picked.get(i, {})))
            elif isinstance(node.op, Pick):
                if i in reached:
                    results = picked.setdefault(node.inputs[0], {})
                    known = [results[node.op.result]] if node.op.result in results else []
                    results[node.op.result] = self.arrays.plus([*known, *reached[i]])
            elif node.inputs and (i in reached or isinstance(node.op, Contract | Opaque)):
                # A weight is looked at even where nothing is relevant: its dead connections want a reason.
                reach(*self._pull(graph, node, values, relevant(i)))
        return [relevant(i) for i in graph.sources]

    def _pull(self, graph: Graph, node: Node, values: Values[T], y: T) -> tuple[list[int], list[T]]:
        """The activations that enter a node and the relevance of each, after recording the weights that do."""
        activations = [i for i in node.inputs if not isinstance(graph.nodes[i].op, Weight)]
        flows = [flow_of(values[i]) for i in activations]
        shapes = [graph.nodes[i].shape for i in activations]
        if isinstance(node.op, Contract):
            giver = graph.nodes[node.inputs[1]]
            assert isinstance(giver.op, Weight)
            use = self.weights.meet(flows[0], y, (shapes[0], node.shape), node.op, giver.op, giver.shape)
            self._record(giver.op, use)
            back = self.weights.contract_back(y, node.shape, node.op, giver.op, giver.shape, shapes[0])
            return activations, [back]
        if len(activations) < len(node.inputs):
            self._record_everywhere(graph, node, flows, shapes, y)
        return activations, pull(self.arrays, node.op, node.shape, flows, shapes, y)

    def _record_everywhere(
        self, graph: Graph, node: Node, flows: Sequence[Flow[T]], shapes: Sequence[Shape], y: T
    ) -> None:
        live = level(self.arrays, [flow.live for flow in flows], shapes)
        whole, relevant = Flow(live, ones(self.arrays, ())), level(self.arrays, [y], [node.shape])
        for giver in (graph.nodes[i] for i in node.inputs):
            if isinstance(giver.op, Weight):
                self._record(giver.op, self.weights.meet_everywhere(whole, relevant, giver.op, giver.shape))

    def _record(self, weight: Weight, found: F) -> None:
        self.uses[weight] = found if weight not in self.uses else self.weights.merge(self.uses[weight], found)


def _shapes(graph: Graph, node: Node) -> list[Shape]:
    """The shapes of the activations that enter a node."""
    return [graph.nodes[i].shape for i in node.inputs if not isinstance(graph.nodes[i].op, Weight)]
