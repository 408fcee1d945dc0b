"""Can a connection of an ONNX model be removed by setting stored numbers? Not where the weight is computed."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from effsparse_cli.folding.carriers import Facts
from effsparse_cli.folding.onnx.wiring import Wiring
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto.subgraphs import subgraphs
from effsparse_cli.formats.onnx.tensors.masked import stored_mask, zeroed
from effsparse_cli.formats.onnx.tensors.stored import Array, Stored
from effsparse_cli.graph.primitives import Bools

COMPUTED = "the weight is computed from stored tensors, so that one connection changes others"
ELSEWHERE = "the weight is stored in a subgraph, a function, or a sparse or packed form"
MASK_COMPUTED = "the weight's mask is computed"
OTHERWISE = "an operator uses the same tensor as plain numbers"
AN_OUTPUT = "the tensor is an output of the model itself"
AS_WEIGHT = ("Contract", "Weight", "Scan", "Opaque")
"""Primitives in which connections of a stored tensor are counted."""


def why_fixed(wiring: Wiring, leaf: str | None, facts: Facts) -> str:
    """Empty where it can; `leaf` is the name of the layer's tensor, if one is stored under that."""
    stored = wiring.store.under(facts.layer.name)
    if stored is None or leaf is None:
        return COMPUTED
    if stored.repack is not None or leaf not in wiring.stored:
        return ELSEWHERE
    if any(stored_mask(known) is None for known in stored.altered if known.mask is not None):
        return MASK_COMPUTED
    if any(_is_plain_number(wiring, node, given) for node, given in wiring.uses(leaf)):
        return OTHERWISE
    if wiring.reaches_output(leaf):
        return AN_OUTPUT
    for given in {given for _, given in wiring.uses(leaf) if given != leaf}:
        try:
            parts = [part_of(wiring, stored, leaf, given, mask) for mask in (facts.active, ~facts.active)]
            if not np.array_equal(parts[0] + parts[1], wiring.value(given, {})):
                return COMPUTED
        except Exception:  # an operator that cannot be evaluated, for whatever reason that onnx's reference gives
            return COMPUTED
    return ""


def _is_plain_number(wiring: Wiring, node: NodeProto, given: str) -> bool:
    """Is the constant an operand like any other here, rather than a weight: a bias, or a part of a sum? Operators that
    are not known are asked nothing: the graph has taken care of what enters them."""
    operator = find_operator(node)
    if operator is None or any(True for _ in subgraphs(node)):
        return False
    if operator.contraction is not None:
        return given in node.input[operator.contraction.weight + 1 :]
    return not any(word in operator.primitives for word in AS_WEIGHT)


def part_of(wiring: Wiring, stored: Stored, leaf: str, given: str, chosen: Bools) -> Array:
    """A constant made of a stored tensor, with everything but the chosen elements of that at its zero."""
    return wiring.value(given, {leaf: zeroed(stored, chosen)})
