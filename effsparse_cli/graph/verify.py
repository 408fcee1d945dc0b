"""Check that a graph is legal: every node has earlier inputs, a known primitive and the shape that its primitive gives.

The ONNX front end checks every graph that it builds, because a file's operators may not fit together. The torch front
end compares each result with the traced shape instead; its tests check whole graphs here, as the witnesses do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from effsparse_cli.graph import primitives as p
from effsparse_cli.graph.equations import letter_sizes, split_equation
from effsparse_cli.graph.graph import Graph, Node
from effsparse_cli.graph.primitives import Shape, Taps


def verify(graph: Graph) -> None:
    """Raise ValueError that names the first illegal node."""
    for position, node in enumerate(graph.nodes):
        fault = _fault(graph, position, node)
        if fault:
            raise ValueError(f"node {position} ({type(node.op).__name__} at {node.name!r}): {fault}")
    for output in graph.outputs:
        if not 0 <= output < len(graph.nodes) or isinstance(graph.nodes[output].op, p.Scan | p.Weight):
            raise ValueError(f"output {output} is not a value of the graph")


def _fault(graph: Graph, position: int, node: Node) -> str | None:
    if any(not 0 <= i < position for i in node.inputs):
        return "an input does not come before it"
    inputs = [graph.nodes[i] for i in node.inputs]
    for i, given in enumerate(inputs):
        if isinstance(given.op, p.Scan) and not isinstance(node.op, p.Pick):
            return "only Pick reads a Scan"
        weighted = isinstance(node.op, p.Opaque) or (isinstance(node.op, p.Contract) and i)
        if isinstance(given.op, p.Weight) and not weighted:
            return "a weight is the input of something that is not a contraction"
    if isinstance(node.op, p.Weight):
        return _weight_fault(graph, node.op, node.shape)
    expected = _expected(graph, node, [given.shape for given in inputs])
    if isinstance(expected, str):
        return expected
    return None if expected == node.shape else f"has shape {node.shape}, should have {expected}"


def _weight_fault(graph: Graph, op: p.Weight, shape: Shape) -> str | None:
    if op.layer not in graph.operands:
        return f"no layer {op.layer!r}"
    size = math.prod(graph.operands[op.layer].shape)
    view = op.view
    if view.index is not None:
        inside = view.index.shape == shape and view.index.max(initial=-1) < size and view.index.min(initial=0) >= -1
        return None if inside else "its view reads outside the stored tensor"
    if view.strides is None:
        return None if math.prod(shape) == size else f"{shape} does not hold the {size} stored elements"
    last = view.offset + sum(max(n - 1, 0) * s for n, s in zip(shape, view.strides, strict=True))
    return None if view.offset >= 0 and last < size else "its view reads outside the stored tensor"


def _expected(graph: Graph, node: Node, shapes: Sequence[Shape]) -> Shape | str:
    """Return the shape that the primitive gives, or what is wrong with its inputs."""
    match node.op:
        case p.Source() | p.Opaque():
            return node.shape
        case p.Constant(nonzero):
            return _broadcast([nonzero.shape], node.shape)
        case p.Contract():
            return _contracted(node.op, shapes[0], shapes[1])
        case p.Product(equation):
            return _multiplied(equation, shapes)
        case p.Join():
            return tuple(np.broadcast_shapes(*shapes)) if len({len(s) for s in shapes}) == 1 else "ranks differ"
        case p.Mix(axes):
            reduced = tuple(1 if i in axes else n for i, n in enumerate(shapes[0]))
            return reduced if node.shape == reduced else shapes[0]
        case p.Window(taps):
            return _windowed(taps, shapes[0])
        case p.Permute(dims):
            return (
                tuple(shapes[0][d] for d in dims) if sorted(dims) == [*range(len(shapes[0]))] else "not a permutation"
            )
        case p.Reshape():
            return node.shape if math.prod(node.shape) == math.prod(shapes[0]) else "the number of elements changes"
        case p.Expand():
            return _broadcast(shapes, node.shape)
        case p.Take(axis, index):
            inside = index.min(initial=-1) >= -1 and index.max(initial=-1) < shapes[0][axis]
            return (*shapes[0][:axis], len(index), *shapes[0][axis + 1 :]) if inside else "reads outside the input"
        case p.Concat(axis):
            rest = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
            total = sum(s[axis] for s in shapes)
            return (*shapes[0][:axis], total, *shapes[0][axis + 1 :]) if len(rest) == 1 else "sizes differ"
        case p.Scan():
            verify(Graph(node.op.body.nodes, node.op.body.outputs, graph.operands))
            return _scanned(node.op, shapes) or node.shape
        case p.Pick(result):
            return _picked(graph.nodes[node.inputs[0]].op, result)
        case _:
            return "not a primitive"


def _broadcast(shapes: Sequence[Shape], target: Shape) -> Shape | str:
    fits = all(len(s) == len(target) and all(n in (1, m) for n, m in zip(s, target, strict=True)) for s in shapes)
    return target if fits else f"{shapes[0]} does not broadcast to {target}"


def _injective(table: Taps) -> bool:
    """Does each tap read an input position at most once? The backward pass inverts the table."""
    return all(len(np.unique(row[row >= 0])) == np.count_nonzero(row >= 0) for row in table)


def _contracted(op: p.Contract, x: Shape, weight: Shape) -> Shape | str:
    spatial = len(op.windows)
    batch, channels, sizes = x[: len(x) - spatial - 1], x[len(x) - spatial - 1], x[len(x) - spatial :]
    taps = tuple(table.shape[0] for table in op.windows)
    if weight[2:] != taps or channels != op.groups * weight[1] or weight[0] % op.groups:
        return f"the weight {weight} does not fit an input {x} in {op.groups} groups"
    if any(table.max(initial=-1) >= n for table, n in zip(op.windows, sizes, strict=True)):
        return "a tap reads outside the input"
    if not all(_injective(table) for table in op.windows):
        return "a tap reads an input position twice"
    return (*batch, weight[0], *(table.shape[1] for table in op.windows))


def _multiplied(equation: str, shapes: Sequence[Shape]) -> Shape | str:
    *terms, result = split_equation(equation)
    sizes = letter_sizes(equation, shapes)
    for letters, shape in zip(terms, shapes, strict=True):
        if len(set(letters)) != len(letters) or len(letters) != len(shape):
            return f"{equation} does not fit {shapes}"
        if any(n not in (1, sizes[letter]) for letter, n in zip(letters, shape, strict=True)):
            return f"{equation} does not fit {shapes}"
    return tuple(sizes[c] for c in result) if set(result) <= set(sizes) else f"{equation} does not fit {shapes}"


def _windowed(taps: Sequence[Taps | None], shape: Shape) -> Shape | str:
    if len(taps) != len(shape):
        return "the number of tables differs from the number of axes"
    if any(t is not None and t.max(initial=-1) >= n for t, n in zip(taps, shape, strict=True)):
        return "a tap reads outside the input"
    return tuple(n if t is None else t.shape[1] for t, n in zip(taps, shape, strict=True))


def _scanned(op: p.Scan, shapes: Sequence[Shape]) -> str | None:
    body, sliced = op.body, range(op.states, op.states + op.scanned)
    sources = [body.nodes[i].shape for i in body.sources]
    given = [s[1:] if i in sliced else s for i, s in enumerate(shapes)]
    if sources != given:
        return f"the body takes {sources} but gets {given}"
    if [body.nodes[i].shape for i in body.outputs[: op.states]] != given[: op.states]:
        return "a state changes its shape"
    if op.steps is None and (op.scanned or len(body.outputs) > op.states):
        return "a fixed point can neither scan nor stack"
    return None


def _picked(op: object, result: int) -> Shape | str:
    if not isinstance(op, p.Scan) or result >= len(op.body.outputs):
        return "the Scan has no such result"
    shape = op.body.nodes[op.body.outputs[result]].shape
    return shape if result < op.states else (op.steps or 0, *shape)
