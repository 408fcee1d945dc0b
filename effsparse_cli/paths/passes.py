"""The pass: forward from the sources, backward from the outputs, and at every weight the connections that join both.
Works on any graph in any semiring; a Scan is the same pass over its body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic

from effsparse_cli.graph.graph import Graph, Step
from effsparse_cli.graph.primitives import Constant, Contract, Opaque, Pick, Scan, Source, Weight
from effsparse_cli.paths import scans
from effsparse_cli.paths.algebra import Arrays, F, Flow, T, Weights
from effsparse_cli.paths.rules import level, ones, pull, push, zeros
from effsparse_cli.paths.scans import Steps, Values, flow_of


class Pass(Generic[T, F]):
    """One pass over a graph; `uses` has the result for each use of a weight. With `watch`, `convolved` has what is live
    and what is relevant at the output of each convolution, once per visit."""

    def __init__(self, arrays: Arrays[T], weights: Weights[T, F], graph: Graph, watch: bool = False) -> None:
        self.arrays = arrays
        self.weights = weights
        self.uses: dict[Weight, F] = {}
        self.convolved: list[tuple[Step, T, T]] | None = [] if watch else None
        sources = [Flow(live, live) for live in (ones(arrays, graph.nodes[i].shape) for i in graph.sources)]
        self.values = self.forward(graph, sources)
        self.backward(graph, self.values, [ones(arrays, graph.nodes[i].shape) for i in graph.outputs], to_sources=False)

    @property
    def alive(self) -> bytes:
        """One byte per node: 1 if an input reaches it, else 0."""
        return bytes(map(self._is_live, self.values))

    def _is_live(self, value: Flow[T] | Steps[T] | None) -> bool:
        if isinstance(value, Steps):
            return any(self.arrays.any(flow.live) for flow in value.results)
        return value is not None and self.arrays.any(value.live)

    def forward(self, graph: Graph, sources: Sequence[Flow[T]]) -> Values[T]:
        values: Values[T] = []
        waiting = iter(sources)
        for step in graph.steps:
            values.append(next(waiting) if isinstance(step.op, Source) else self._value(step, values))
        return values

    def _value(self, step: Step, values: Values[T]) -> Flow[T] | Steps[T] | None:
        arrays, op = self.arrays, step.op
        if step.weight is not None:
            assert isinstance(op, Contract)
            x = flow_of(values[step.values[0]])
            live = self.weights.contract(x.live, step.shapes[0], op, *step.weight)
            if x.nonzero is x.live:
                return Flow(live, live)
            return Flow(live, arrays.support(self.weights.contract(x.nonzero, step.shapes[0], op, *step.weight)))
        if not step.needed or isinstance(op, Weight):
            return None
        if isinstance(op, Constant):
            return Flow(zeros(arrays, step.shape), arrays.lift(op.nonzero, step.shape))
        if isinstance(op, Pick):
            steps = values[step.inputs[0]]
            assert isinstance(steps, Steps)
            return steps.results[op.result]
        flows = [flow_of(values[i]) for i in step.values]
        return (
            scans.run_forward(self, op, flows)
            if isinstance(op, Scan)
            else push(arrays, op, step.shape, flows, step.shapes)
        )

    def backward(self, graph: Graph, values: Values[T], relevance: Sequence[T], to_sources: bool = True) -> list[T]:
        """Return the relevance of the sources from that of the outputs. Without `to_sources`, stop at the first
        weights. Uses of weights are recorded on the way."""
        reached: dict[int, list[T]] = {}
        picked: dict[int, dict[int, T]] = {}

        def reach(nodes: Iterable[int], ys: Iterable[T]) -> None:
            for node, y in zip(nodes, ys, strict=True):
                reached.setdefault(node, []).append(y)

        def relevant(i: int) -> T:
            return self.arrays.plus(reached[i]) if i in reached else zeros(self.arrays, graph.nodes[i].shape)

        reach(graph.outputs, relevance)
        for i in reversed(range(len(graph.steps))):
            step = graph.steps[i]
            if isinstance(step.op, Scan):
                steps = values[i]
                assert isinstance(steps, Steps)
                reach(step.inputs, scans.run_backward(self, step.op, steps, picked.get(i, {})))
            elif isinstance(step.op, Pick):
                if i in reached:
                    results = picked.setdefault(step.inputs[0], {})
                    known = [results[step.op.result]] if step.op.result in results else []
                    results[step.op.result] = self.arrays.plus([*known, *reached[i]])
            elif step.inputs and (i in reached or isinstance(step.op, Contract | Opaque)):
                # A weight is recorded even where nothing is relevant: its inactive connections need a reason.
                y = relevant(i)
                if self.convolved is not None and isinstance(step.op, Contract) and step.op.windows:
                    self.convolved.append((step, flow_of(values[i]).live, y))
                self._look(graph, step, values, y)
                if to_sources or step.after_weight:
                    reach(step.values, self._pull(step, values, y))
        return [relevant(i) for i in graph.sources] if to_sources else []

    def _look(self, graph: Graph, step: Step, values: Values[T], y: T) -> None:
        """Record the weights among the inputs of a node."""
        if step.weight is not None:
            assert isinstance(step.op, Contract)
            shapes = step.shapes[0], step.shape
            use = self.weights.meet(flow_of(values[step.values[0]]), y, shapes, step.op, *step.weight)
            self._record(step.weight[0], use)
        elif len(step.values) < len(step.inputs):
            self._record_inside(graph, step, y)

    def _pull(self, step: Step, values: Values[T], y: T) -> list[T]:
        """Return the relevance of each input value of a node."""
        if step.weight is not None:
            assert isinstance(step.op, Contract)
            return [self.weights.contract_back(y, step.shape, step.op, *step.weight, step.shapes[0])]
        return pull(self.arrays, step.op, step.shape, [flow_of(values[i]) for i in step.values], step.shapes, y)

    def _record_inside(self, graph: Graph, step: Step, y: T) -> None:
        """Record the weights inside an unknown operator. They are relevant wherever its result is, whether or not an
        input reaches it."""
        alive = ones(self.arrays, ())
        whole, relevant = Flow(alive, alive), level(self.arrays, [y], [step.shape])
        for giver in (graph.nodes[i] for i in step.inputs):
            if isinstance(giver.op, Weight):
                self._record(giver.op, self.weights.meet_everywhere(whole, relevant, giver.op, giver.shape))

    def _record(self, weight: Weight, found: F) -> None:
        self.uses[weight] = found if weight not in self.uses else self.weights.merge(self.uses[weight], found)
