"""onnx's shape inference, guarded against what it cannot handle: calls of functions that multiply, and integer
constants that grow without limit."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import FunctionProto, ModelProto, NodeProto

from effsparse_cli.formats.onnx.lowering.budget import DEEPEST
from effsparse_cli.formats.onnx.proto.subgraphs import subgraphs

MOST_CALLED = 50_000
"""Operators that inference may visit, counted each time."""

MOST_PROPAGATED = 1 << 16
"""Elements of an integer constant that inference may compute."""


def infer_shapes(model: ModelProto) -> ModelProto:
    """Return the model with inferred shapes. The model is changed if its functions have to be dropped."""
    if explosive(model):
        del model.functions[:]
    return onnx.shape_inference.infer_shapes(model, data_prop=not _grows(model))


def explosive(model: ModelProto) -> bool:
    """Whether calls of functions expand to too many operators, or never end."""
    sizes = _sizes(model)
    return sizes is None or sum(sizes.get(_key(node), 1) for node in _nested(model.graph.node)) > MOST_CALLED


def _key(node: NodeProto) -> tuple[str, str, str]:
    return node.domain, node.op_type, node.overload


def _nested(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            yield from _nested(inner.node)


def _sizes(model: ModelProto) -> dict[tuple[str, str, str], int] | None:
    """Return the number of operators that a call of each function expands to; None if calls are nested too deeply or
    recursive."""
    functions: dict[tuple[str, str, str], FunctionProto] = {(f.domain, f.name, f.overload): f for f in model.functions}
    calls = {key: [_key(node) for node in _nested(function.node)] for key, function in functions.items()}
    sizes = dict.fromkeys(functions, 0)
    for _ in range(DEEPEST):
        grown = {key: sum(1 + min(sizes.get(name, 0), MOST_CALLED) for name in names) for key, names in calls.items()}
        if grown == sizes:
            return sizes
        sizes = grown
    return None


def _grows(model: ModelProto) -> bool:
    """Whether a constant may become much larger than the stored ones. Only Concat makes constants larger."""
    if any(node.op_type == "Concat" for function in model.functions for node in _nested(function.node)):
        return True
    sizes: dict[str, int] = {t.name: max(t.dims, default=1) for t in model.graph.initializer}
    for node in _nested(model.graph.node):
        given = [sizes.get(name, 16) for name in node.input]
        size = sum(given) if node.op_type == "Concat" else max(given, default=16)
        if size > MOST_PROPAGATED:
            return True
        sizes.update(dict.fromkeys(node.output, size))
    return False
