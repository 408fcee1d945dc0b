"""The graph that front ends build and the engine reads: nodes in topological order, one value each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, CallPath, Contract, Opaque, Primitive, Scan, Shape, Source, Weight


@dataclass(frozen=True, eq=False)
class OpenDimensions:
    """The open dimensions by name, except batch dimensions, with the sizes assumed for them.

    `shapes` returns the shapes of all inputs with these sizes multiplied by a factor. It raises UsageError if the
    model declares that it does not accept such a size.
    """

    sizes: Mapping[str, int]
    shapes: Callable[[int], Mapping[str, Shape]]


@dataclass(frozen=True)
class Node:
    """One value. `inputs` are positions of earlier nodes; `name` is the module or operator in the user's model."""

    op: Primitive
    inputs: tuple[int, ...]
    shape: Shape
    name: str = ""


Note = str | Callable[[], str]
"""A note for the report, or a function that writes one, or nothing, when the report is written."""


@dataclass(frozen=True)
class Layer:
    """One stored weight tensor, named and shaped as in the user's file.

    `kept` and `values` read the tensor on each call, so that it is read late and not held: `kept` returns a boolean
    array of its shape, `values` the numbers before any mask. `masked` is True if a mask decides what is kept instead of
    the numbers. `finite` returns whether all numbers are finite, usually without reading them again. `op` is the
    operator's name in reports: linear, conv2d, embedding, lstm. `parameter` is the tensor's key in an ordinary
    state_dict (`fc1.weight` even if stored as `fc1.weight_orig`), or the name of an ONNX initializer. `itemsize` is the
    number of bytes of a stored number, 0 if that is unknown or not a whole number.
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
    itemsize: int = 0


@dataclass(frozen=True)
class MixedWeight:
    """A weight that is computed from stored weights, as in weight standardization.

    `graph` computes it: its sources have the names and shapes of the layers that hold the stored weights, and its only
    output is `layer`, the weight as operators use it. `stale` is True if the layers no longer keep what the stored
    numbers say, so that `layer.kept` does not tell which elements are zero.
    """

    layer: Layer
    graph: Graph
    stale: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The layers that it is computed from, the largest first."""
        return tuple(sorted(self.graph.input_shapes, key=lambda name: -math.prod(self.graph.input_shapes[name])))


class Step(NamedTuple):
    """A node as a pass visits it. `values` are the inputs that are not weights, `shapes` their shapes, and `weight` is
    the weight of a contraction with its shape. `needed` if an output or an operator with a weight depends on it,
    `after_weight` if it depends on an operator with a weight."""

    op: Primitive
    shape: Shape
    inputs: tuple[int, ...]
    values: tuple[int, ...]
    shapes: tuple[Shape, ...]
    weight: tuple[Weight, Shape] | None
    needed: bool
    after_weight: bool


@dataclass(frozen=True)
class Graph:
    """`unused` names stored weights that no operator uses; `mixed_weights` has the names that Weight nodes use for
    them; `open_dimensions` has the input sizes that were assumed, if any. `note_sources` has the notes, or functions
    that return one or nothing."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    layers: dict[str, Layer] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    note_sources: tuple[Note, ...] = ()
    mixed_weights: dict[str, MixedWeight] = field(default_factory=dict)
    open_dimensions: OpenDimensions | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes for a report. After a pass this reads no weight again."""
        notes = (note if isinstance(note, str) else note() for note in self.note_sources)
        return tuple(note for note in notes if note)

    def with_notes(self, *, before: Sequence[Note] = (), after: Sequence[Note] = ()) -> Graph:
        """Return the same graph with more notes."""
        return replace(self, note_sources=(*before, *self.note_sources, *after))

    def with_masks(self, masks: Mapping[str, Bools]) -> Graph:
        """Return the same graph with other connections kept in the layers that `masks` names."""

        def masked(layer: Layer) -> Layer:
            return replace(layer, kept=lambda: masks[layer.name])

        other = self.with_layers({name: masked(self.layers[name]) for name in masks if name in self.layers})
        other.__dict__.update(steps=self.steps, cache=self.cache)
        return other

    def with_layers(self, changed: Mapping[str, Layer]) -> Graph:
        """Return the same graph with some layers replaced."""
        mixed_weights = {
            name: replace(mixed, stale=mixed.stale or not changed.keys().isdisjoint(mixed.sources))
            for name, mixed in self.mixed_weights.items()
        }
        return replace(self, layers={**self.layers, **changed}, mixed_weights=mixed_weights)

    @cached_property
    def operands(self) -> dict[str, Layer]:
        """Everything that Weight nodes name: layers and mixed weights."""
        return {**self.layers, **{name: mixed.layer for name, mixed in self.mixed_weights.items()}}

    def layer_of(self, operand: str) -> str:
        """Return the layer to report for an operand; for a mixed weight, the largest that it is computed from."""
        return operand if operand in self.layers else self.mixed_weights[operand].sources[0]

    @cached_property
    def cache(self) -> dict[str, Any]:
        """For passes: what follows from the nodes alone, whatever is kept."""
        return {}

    @cached_property
    def weight_shapes(self) -> dict[Weight, Shape]:
        """The shape in which each operator uses its weight, including scan bodies."""
        shapes = {node.op: node.shape for node in self.nodes if isinstance(node.op, Weight)}
        for node in self.nodes:
            if isinstance(node.op, Scan):
                shapes.update(node.op.body.weight_shapes)
        return shapes

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The nodes in the order of a pass."""
        has_weight = [isinstance(node.op, Contract | Opaque | Scan) for node in self.nodes]
        needed, after_weight = set(self.outputs), set[int]()
        for i in reversed(range(len(self.nodes))):
            if i in needed or has_weight[i]:
                needed.update(self.nodes[i].inputs)
        for i, node in enumerate(self.nodes):
            if any(has_weight[k] or k in after_weight for k in node.inputs):
                after_weight.add(i)
        return tuple(
            self._step(node, has_weight[i] or i in needed, i in after_weight) for i, node in enumerate(self.nodes)
        )

    def _step(self, node: Node, needed: bool, after_weight: bool) -> Step:
        values = tuple(k for k in node.inputs if not isinstance(self.nodes[k].op, Weight))
        weight = None
        if isinstance(node.op, Contract):
            weight_node = self.nodes[node.inputs[1]]
            assert isinstance(weight_node.op, Weight)
            weight = weight_node.op, weight_node.shape
        shapes = tuple(self.nodes[k].shape for k in values)
        return Step(node.op, node.shape, node.inputs, values, shapes, weight, needed, after_weight)

    @cached_property
    def input_shapes(self) -> dict[str, Shape]:
        return {node.op.name: node.shape for node in self.nodes if isinstance(node.op, Source)}

    @cached_property
    def unknown_operators(self) -> tuple[str, ...]:
        """Operators taken as "everything depends on everything", including scan bodies, in order of use."""
        labels: dict[str, None] = {}
        for node in self.nodes:
            if isinstance(node.op, Opaque):
                labels[node.op.label] = None
            elif isinstance(node.op, Scan):
                labels.update(dict.fromkeys(node.op.body.unknown_operators))
        for mixed in self.mixed_weights.values():
            labels.update(dict.fromkeys(mixed.graph.unknown_operators))
        return tuple(labels)

    @cached_property
    def layers_in_unknown_operators(self) -> tuple[str, ...]:
        """Layers whose weights are inputs of an unknown operator, including scan bodies, in order of use."""
        names: dict[str, None] = {}
        for node in self.nodes:
            if isinstance(node.op, Opaque):
                ops = [self.nodes[i].op for i in node.inputs]
                names.update({self.layer_of(op.layer): None for op in ops if isinstance(op, Weight)})
            elif isinstance(node.op, Scan):
                body = replace(node.op.body, layers=self.layers)
                names.update(dict.fromkeys(body.layers_in_unknown_operators))
        return tuple(names)

    @cached_property
    def calls(self) -> dict[CallPath, tuple[str, ...]]:
        """The layers that each op call uses, for op calls that use any, including scan bodies, in order of use."""
        found: dict[CallPath, dict[str, None]] = {}
        for weight in self._weights():
            mixed = self.mixed_weights.get(weight.layer)
            found.setdefault(weight.call, {}).update(dict.fromkeys(mixed.sources if mixed else (weight.layer,)))
        return {call: tuple(layers) for call, layers in found.items()}

    def _weights(self) -> Iterator[Weight]:
        for node in self.nodes:
            if isinstance(node.op, Weight):
                yield node.op
            elif isinstance(node.op, Scan):
                yield from node.op.body._weights()

    @cached_property
    def sources(self) -> tuple[int, ...]:
        return tuple(i for i, node in enumerate(self.nodes) if isinstance(node.op, Source))
