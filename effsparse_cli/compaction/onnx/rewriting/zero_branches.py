"""Branches that always give zero: what only adds them can do without."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto, NodeProto

from effsparse_cli.compaction.positions import Value
from effsparse_cli.folding.onnx.unused import drop_unused
from effsparse_cli.formats.onnx.ops import find_operator


def drop_zero_branches(model: ModelProto, values: Mapping[str, Value]) -> bool:
    """In place; True if there were any."""
    outputs = {value.name for value in model.graph.output}
    instead: dict[str, str] = {}
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = instead.get(name, name)
        other = _other(node, values)
        if other is not None and node.output[0] not in outputs:
            instead[node.output[0]] = other
    drop_unused(model)
    return bool(instead)


def _other(node: NodeProto, values: Mapping[str, Value]) -> str | None:
    """What a sum is equal to, if all but that is zero."""
    operator = find_operator(node)
    if operator is None or len(node.input) != 2:
        return None
    for neutral in reversed(operator.neutral_zeros):
        stays, goes = node.input[1 - neutral], node.input[neutral]
        if values[goes].all_zero and values[stays].shape == values[node.output[0]].shape:
            return str(stays)
    return None
