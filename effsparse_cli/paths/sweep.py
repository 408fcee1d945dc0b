"""The one pass: forward from the sources, backward from the outputs, and at every weight the question which
connections join the two. Works on any graph, in any semiring; a Scan is the same pass over its body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from effsparse_cli.graph.graph import Graph, Node
from effsparse_cli.graph.primitives import Constant, Contract, Pick, Scan, Shape, Source, Weight
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
        reached: dict[int, T] = {}
        picked: dict[int, dict[int, T]] = {}

        def reach(node: int, y: T) -> None:
            reached[node] = y if node not in reached else self.arrays.plus([reached[node], y])

        for output, y in zip(graph.outputs, relevance, strict=True):
            reach(output, y)
        for i in reversed(range(len(graph.nodes))):
            node = graph.nodes[i]
            if isinstance(node.op, Scan):
                steps = values[i]
                assert isinstance(steps, Steps)
                for k, y in zip(node.inputs, scans.run_backward(self, node.op, steps, picked.get(i, {})), strict=True):
                    reach(k, y)
            elif isinstance(node.op, Pick):
                if i in reached:
                    results = picked.setdefault(node.inputs[0], {})
                    known = results.get(node.op.result)
                    results[node.op.result] = reached[i] if known is None else self.arrays.plus([known, reached[i]])
            elif node.inputs and (i in reached or any(isinstance(graph.nodes[k].op, Weight) for k in node.inputs)):
                # A weight is looked at even where nothing is relevant: its dead connections want a reason.
                for k, y in self._pull(graph, node, values, reached.get(i, zeros(self.arrays, node.shape))):
                    reach(k, y)
        return [reached.get(i, zeros(self.arrays, graph.nodes[i].shape)) for i in graph.sources]

    def _pull(self, graph: Graph, node: Node, values: Values[T], y: T) -> list[tuple[int, T]]:
        """The relevance of each activation that enters a node, after recording the weights that do."""
        givers = [graph.nodes[i] for i in node.inputs]
        activations = [i for i in node.inputs if not isinstance(graph.nodes[i].op, Weight)]
        flows = [flow_of(values[i]) for i in activations]
        for giver in givers:
            if isinstance(giver.op, Weight):
                self._record(giver.op, self._meet(node, giver, giver.op, flows, _shapes(graph, node), y))
        if isinstance(node.op, Contract):
            weight = givers[1].op
            assert isinstance(weight, Weight)
            args = (node.shape, node.op, weight, givers[1].shape, givers[0].shape)
            return [(node.inputs[0], self.weights.contract_back(y, *args))]
        pulled = pull(self.arrays, node.op, node.shape, flows, _shapes(graph, node), y)
        return list(zip(activations, pulled, strict=True))

    def _meet(
        self, node: Node, giver: Node, weight: Weight, flows: Sequence[Flow[T]], shapes: Sequence[Shape], y: T
    ) -> F:
        if isinstance(node.op, Contract):
            return self.weights.meet(flows[0], y, (shapes[0], node.shape), node.op, weight, giver.shape)
        live = level(self.arrays, [flow.live for flow in flows], shapes)
        whole = Flow(live, ones(self.arrays, ()))
        return self.weights.meet_everywhere(whole, level(self.arrays, [y], [node.shape]), weight, giver.shape)

    def _record(self, weight: Weight, found: F) -> None:
        self.uses[weight] = found if weight not in self.uses else self.weights.merge(self.uses[weight], found)


def _shapes(graph: Graph, node: Node) -> list[Shape]:
    """The shapes of the activations that enter a node."""
    return [graph.nodes[i].shape for i in node.inputs if not isinstance(graph.nodes[i].op, Weight)]
