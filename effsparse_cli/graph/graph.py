"""The graph that front ends build and engines read: nodes in topological order, one value each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Contract, Opaque, Primitive, Scan, Shape, Source, Weight
from effsparse_cli.graph.sizes import OpenSizes


@dataclass(frozen=True)
class Node:
    """One value: `inputs` are positions of earlier nodes; `name` is the user's name for the place."""

    op: Primitive
    inputs: tuple[int, ...]
    shape: Shape
    name: str = ""


@dataclass(frozen=True)
class Layer:
    """One stored weight tensor, named and shaped as in the user's own file.

    `kept` reads it when asked and gives a boolean array of its shape, so that weights are scanned late,
    once, and not held; `values` likewise the numbers, before any mask. `masked` tells that a mask says what
    is kept, and not the numbers. `finite` tells whether all numbers are, where somebody has looked already. `op` is
    what the operator is called in a report: linear, conv2d, embedding, lstm. `parameter` is the tensor's key in a plain
    state_dict (`fc1.weight`, also if it is stored as `fc1.weight_orig`), or the name of an ONNX initializer.
    """

    name: str
    op: str
    shape: Shape
    kept: Callable[[], Bools]
    embedding: bool = False
    values: Callable[[], NDArray[Any]] | None = None
    masked: bool = False
    finite: Callable[[], bool] | None = None
    parameter: str = ""


@dataclass(frozen=True)
class MixedWeight:
    """A weight that operators use but no file stores: a mix of stored weights, as in weight standardization.

    `graph` computes it: its sources have the names and shapes of the layers that hold the stored weights, and its only
    output is `layer`, the weight as operators use it. `stale` if the layers keep something else than the stored numbers
    say, so that `layer.kept` no longer tells which elements are zero.
    """

    layer: Layer
    graph: Graph
    stale: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The layers that it is made of, the largest first."""
        return tuple(sorted(self.graph.input_shapes, key=lambda name: -math.prod(self.graph.input_shapes[name])))


class Step(NamedTuple):
    """A node, with the inputs that are no weights and their shapes, and the weight and its shape if it contracts with
    one. What is not `asked` for neither leads to an output nor to an operator with a weight; to what is `deep`, an
    operator with a weight leads."""

    op: Primitive
    shape: Shape
    inputs: tuple[int, ...]
    values: tuple[int, ...]
    shapes: tuple[Shape, ...]
    weight: tuple[Weight, Shape] | None
    asked: bool
    deep: bool


@dataclass(frozen=True)
class Graph:
    """`open` says which input sizes had to be assumed, if any."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    layers: dict[str, Layer] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    mixed_weights: dict[str, MixedWeight] = field(default_factory=dict)
    """By the names that Weight nodes have for them."""
    open: OpenSizes | None = None

    def keeping(self, masks: Mapping[str, Bools]) -> Graph:
        """The same graph with other connections kept, in the layers that `masks` names."""

        def masked(layer: Layer) -> Layer:
            return replace(layer, kept=lambda: masks[layer.name])

        other = self.with_layers({name: masked(self.layers[name]) for name in masks if name in self.layers})
        other.__dict__.update(steps=self.steps, known=self.known)
        return other

    def with_layers(self, changed: Mapping[str, Layer]) -> Graph:
        """The same graph with other readers for some layers."""
        mixed_weights = {
            name: replace(mixed_weight, stale=mixed_weight.stale or not changed.keys().isdisjoint(mixed_weight.sources))
            for name, mixed_weight in self.mixed_weights.items()
        }
        return replace(self, layers={**self.layers, **changed}, mixed_weights=mixed_weights)

    @cached_property
    def operands(self) -> dict[str, Layer]:
        """What Weight nodes name: the layers, and mixed weights of layers."""
        return {**self.layers, **{name: mixed_weight.layer for name, mixed_weight in self.mixed_weights.items()}}

    def layer_of(self, operand: str) -> str:
        """The layer to name for an operand: for a mixed weight, the largest that it is made of."""
        return operand if operand in self.layers else self.mixed_weights[operand].sources[0]

    @cached_property
    def known(self) -> dict[str, Any]:
        """For passes to remember what follows from the nodes alone."""
        return {}

    @cached_property
    def weight_shapes(self) -> dict[Weight, Shape]:
        """The shape in which each operator uses its weight, bodies of scans included."""
        shapes = {node.op: node.shape for node in self.nodes if isinstance(node.op, Weight)}
        for node in self.nodes:
            if isinstance(node.op, Scan):
                shapes.update(node.op.body.weight_shapes)
        return shapes

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The nodes as a pass goes through them."""
        weighty = [isinstance(node.op, Contract | Opaque | Scan) for node in self.nodes]
        asked, deep = set(self.outputs), set[int]()
        for i in reversed(range(len(self.nodes))):
            if i in asked or weighty[i]:
                asked.update(self.nodes[i].inputs)
        for i, node in enumerate(self.nodes):
            if any(weighty[k] or k in deep for k in node.inputs):
                deep.add(i)
        return tuple(self._step(node, weighty[i] or i in asked, i in deep) for i, node in enumerate(self.nodes))

    def _step(self, node: Node, asked: bool, deep: bool) -> Step:
        values = tuple(k for k in node.inputs if not isinstance(self.nodes[k].op, Weight))
        weight = None
        if isinstance(node.op, Contract):
            giver = self.nodes[node.inputs[1]]
            assert isinstance(giver.op, Weight)
            weight = giver.op, giver.shape
        shapes = tuple(self.nodes[k].shape for k in values)
        return Step(node.op, node.shape, node.inputs, values, shapes, weight, asked, deep)

    @cached_property
    def input_shapes(self) -> dict[str, Shape]:
        return {node.op.name: node.shape for node in self.nodes if isinstance(node.op, Source)}

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """The operators taken as "everything depends on everything", bodies of scans included, in order of use."""
        labels: dict[str, None] = {}
        for node in self.nodes:
            if isinstance(node.op, Opaque):
                labels[node.op.label] = None
            elif isinstance(node.op, Scan):
                labels.update(dict.fromkeys(node.op.body.unknown))
        for mixed_weight in self.mixed_weights.values():
            labels.update(dict.fromkeys(mixed_weight.graph.unknown))
        return tuple(labels)

    @cached_property
    def inside_unknown(self) -> tuple[str, ...]:
        """The layers whose weights enter an unknown operator, bodies of scans included, in order of use."""
        names: dict[str, None] = {}
        for node in self.nodes:
            if isinstance(node.op, Opaque):
                ops = [self.nodes[i].op for i in node.inputs]
                names.update({self.layer_of(op.layer): None for op in ops if isinstance(op, Weight)})
            elif isinstance(node.op, Scan):
                names.update(dict.fromkeys(replace(node.op.body, layers=self.layers).inside_unknown))
        return tuple(names)

    @cached_property
    def sources(self) -> tuple[int, ...]:
        return tuple(i for i, node in enumerate(self.nodes) if isinstance(node.op, Source))
