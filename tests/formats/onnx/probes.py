"""Finds the input elements that matter according to a graph: every input passes one weight per element, and the active
ones of these weights are those that matter."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from onnx import ModelProto, numpy_helper

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools, Opaque, Scan, Source
from effsparse_cli.paths import find_paths


def relevant(graph: Graph, output: int | None = None, element: int | None = None) -> dict[str, Bools]:
    """Return, for each input, whether each element matters to any output, to one output, or to one element of it."""
    probe = _probed(graph, output, element)
    paths = find_paths(probe)
    return {
        name.removeprefix("probe "): paths[name].mask("active") for name in probe.layers if name.startswith("probe ")
    }


def _probed(graph: Graph, output: int | None, element: int | None) -> Graph:
    b = Builder()
    b.layers.update(graph.layers)
    moved: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        n = math.prod(node.shape)
        if isinstance(node.op, Source) and n:
            x = b.contract(b.source(node.op.name, (n,)), b.weight(_probe(node.op.name, n), (n, 1)), groups=n)
            moved[position] = b.reshape(x, node.shape)
        else:
            moved[position] = b.add(node.op, [moved[i] for i in node.inputs], node.shape)
    outputs = [moved[i] for i in graph.outputs]
    if output is not None:
        outputs = [outputs[output]]
        if element is not None:
            outputs = [b.take(b.reshape(outputs[0], (-1,)), 0, [element])]
    return replace(b.finish(outputs), mixed_weights=graph.mixed_weights)


def _probe(name: str, n: int) -> Layer:
    return Layer(f"probe {name}", "probe", (n,), lambda: np.ones(n, bool))


def opaque_labels(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if isinstance(node.op, Opaque):
            yield node.op.label
        elif isinstance(node.op, Scan):
            yield from opaque_labels(node.op.body)


def primitives_of(graph: Graph) -> set[str]:
    """Return the names of the primitives in a graph, including those in bodies."""
    found = {type(node.op).__name__ for node in graph.nodes}
    return found.union(*(primitives_of(node.op.body) for node in graph.nodes if isinstance(node.op, Scan)))


def with_constants(model: ModelProto, values: list[object], live: int) -> ModelProto:
    """Return the model with all inputs from number `live` on stored in it, if they are arrays."""
    changed = ModelProto()
    changed.CopyFrom(model)
    inputs = list(changed.graph.input)
    del changed.graph.input[:]
    for i, (value, array) in enumerate(zip(inputs, values, strict=True)):
        if i >= live and isinstance(array, np.ndarray | np.generic):
            changed.graph.initializer.append(numpy_helper.from_array(np.asarray(array), value.name))
        else:
            changed.graph.input.append(value)
    return changed
