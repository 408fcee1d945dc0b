"""Drops branches that are always zero and are only added to something."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto, NodeProto

from effsparse_cli.compaction.positions import ValuePositions
from effsparse_cli.folding.onnx.unused import drop_unused
from effsparse_cli.formats.onnx.ops import find_operator


def drop_zero_branches(model: ModelProto, values: Mapping[str, ValuePositions]) -> bool:
    """Change the model in place. Return whether there were any such branches."""
    outputs = {value.name for value in model.graph.output}
    replacements: dict[str, str] = {}
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = replacements.get(name, name)
        other = _nonzero_summand(node, values)
        if other is not None and node.output[0] not in outputs:
            replacements[node.output[0]] = other
    drop_unused(model)
    return bool(replacements)


def _nonzero_summand(node: NodeProto, values: Mapping[str, ValuePositions]) -> str | None:
    """Return the name of the only summand that is not always zero, if there is one."""
    operator = find_operator(node)
    if operator is None or len(node.input) != 2:
        return None
    for neutral in reversed(operator.neutral_zeros):
        stays, goes = node.input[1 - neutral], node.input[neutral]
        if values[goes].all_zero and values[stays].shape == values[node.output[0]].shape:
            return str(stays)
    return None
