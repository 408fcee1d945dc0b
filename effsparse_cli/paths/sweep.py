"""The one pass: forward from the sources, backward from the outputs, and at every weight the question which
connections join the two. Works on any graph, in any semiring; a Scan is the same pass over its body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

import numpy as np

from effsparse_cli.graph.graph import Graph, Node
from effsparse_cli.graph.primitives import Constant, Contract, Opaque, Pick, Scan, Source, Weight
from effsparse_cli.paths import scans
from effsparse_cli.paths.algebra import Algebra, T
from effsparse_cli.paths.bits import fill
from effsparse_cli.paths.edges import Use
from effsparse_cli.paths.rules import Flow, ones, pull, push, zeros
from effsparse_cli.paths.scans import Steps, Values, flow_of


class Sweep(Generic[T]):
    """One pass over a graph; `uses` is what it found for each use of a weight."""

    def __init__(self, algebra: Algebra[T], graph: Graph) -> None:
        self.algebra = algebra
        self.uses: dict[Weight, Use] = {}
        sources = [Flow(live, live) for live in (ones(algebra, graph.nodes[i].shape) for i in graph.sources)]
        self.values = self.forward(graph, sources)
        self.backward(graph, self.values, [ones(algebra, graph.nodes[i].shape) for i in graph.outputs])

    def live(self, node: int) -> bool:
        """Does the input reach this value at all?"""
        value = self.values[node]
        flows = value.results if isinstance(value, Steps) else [value] if value is not None else []
        return any(self.algebra.any(flow.live) for flow in flows)

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
        algebra, inputs = self.algebra, [graph.nodes[i] for i in node.inputs]
        match node.op:
            case Weight():
                return None
            case Constant(nonzero):
                return Flow(zeros(algebra, node.shape), algebra.lift(nonzero, node.shape))
            case Contract():
                x, weight = flow_of(values[node.inputs[0]]), inputs[1]
                assert isinstance(weight.op, Weight)
                args = (inputs[0].shape, node.op, weight.op, weight.shape)
                live = algebra.contract(x.live, *args)
                if x.nonzero is x.live:
                    return Flow(live, live)
                return Flow(live, algebra.support(algebra.contract(x.nonzero, *args)))
            case Opaque():
                reached = any(algebra.any(v.live) for v in map(values.__getitem__, node.inputs) if isinstance(v, Flow))
                everywhere = ones(algebra, node.shape)
                return Flow(everywhere if reached else zeros(algebra, node.shape), everywhere)
            case _:
                flows = [flow_of(values[i]) for i in node.inputs]
                return push(algebra, node.op, node.shape, flows, [n.shape for n in inputs])

    def backward(self, graph: Graph, values: Values[T], relevance: Sequence[T]) -> list[T]:
        """From the relevance of the outputs to that of the sources; records every use of a weight."""
        reached: dict[int, T] = {}
        picked: dict[int, dict[int, T]] = {}

        def reach(node: int, y: T) -> None:
            reached[node] = y if node not in reached else self.algebra.plus([reached[node], y])

        for output, y in zip(graph.outputs, relevance, strict=True):
            reach(output, y)
        for i in reversed(range(len(graph.nodes))):
            node = graph.nodes[i]
            shapes = [graph.nodes[k].shape for k in node.inputs]
            if isinstance(node.op, Scan):
                steps = values[i]
                assert isinstance(steps, Steps)
                for k, y in zip(node.inputs, scans.run_backward(self, node.op, steps, picked.get(i, {})), strict=True):
                    reach(k, y)
            elif isinstance(node.op, Contract | Opaque):
                y = reached.get(i, zeros(self.algebra, node.shape))
                for k, back in self._pull_through_weights(graph, node, values, y):
                    reach(k, back)
            elif isinstance(node.op, Pick) and i in reached:
                results = picked.setdefault(node.inputs[0], {})
                result, y = node.op.result, reached[i]
                results[result] = y if result not in results else self.algebra.plus([results[result], y])
            elif node.inputs and i in reached and not isinstance(node.op, Pick):
                flows = [flow_of(values[k]) for k in node.inputs]
                for k, y in zip(
                    node.inputs, pull(self.algebra, node.op, node.shape, flows, shapes, reached[i]), strict=True
                ):
                    reach(k, y)
        return [reached.get(i, zeros(self.algebra, graph.nodes[i].shape)) for i in graph.sources]

    def _pull_through_weights(self, graph: Graph, node: Node, values: Values[T], y: T) -> list[tuple[int, T]]:
        """Contract and Opaque: relevance of the activations, and what their weights are part of."""
        inputs = [graph.nodes[i] for i in node.inputs]
        if isinstance(node.op, Contract):
            weight, x = inputs[1], flow_of(values[node.inputs[0]])
            assert isinstance(weight.op, Weight)
            self._record_contract(node, x, inputs, y)
            args = (node.shape, node.op, weight.op, weight.shape, inputs[0].shape)
            return [(node.inputs[0], self.algebra.contract_back(y, *args))]
        relevant = self.algebra.any(y)
        flows = [flow_of(values[i]) for i in node.inputs if not isinstance(graph.nodes[i].op, Weight)]
        live = any(self.algebra.any(flow.live) for flow in flows)
        pulled = []
        for i, giver in zip(node.inputs, inputs, strict=True):
            if isinstance(giver.op, Weight):
                kept = self.algebra.kept(giver.op, giver.shape, 1)
                source, target = fill(np.full((1, 1, 1), live)), fill(np.full((1, 1, 1), relevant))
                self._record(Use(giver.op, giver.shape, kept, kept & source & target, source, target, kept & target))
            elif relevant:
                pulled.append((i, ones(self.algebra, giver.shape)))
        return pulled

    def _record_contract(self, node: Node, x: Flow[T], inputs: Sequence[Node], y: T) -> None:
        weight, op = inputs[1], node.op
        assert isinstance(weight.op, Weight)
        assert isinstance(op, Contract)
        args = ((inputs[0].shape, node.shape), op, weight.op, weight.shape)
        active, source, target = self.algebra.meet(x.live, y, *args)
        carried = active if x.nonzero is x.live else self.algebra.meet(x.nonzero, y, *args)[0]
        kept = self.algebra.kept(weight.op, weight.shape, op.groups)
        self._record(Use(weight.op, weight.shape, kept, active, source, target, carried))

    def _record(self, use: Use) -> None:
        known = self.uses.get(use.weight)
        self.uses[use.weight] = use if known is None else known.merge(use)
