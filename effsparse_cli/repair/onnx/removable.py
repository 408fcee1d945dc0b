"""Can a connection of an ONNX model be removed by setting stored numbers? Not where the weight is computed."""

from __future__ import annotations

import numpy as np

from effsparse_cli.graph.primitives import Bools
from effsparse_cli.load.onnx.masked import stored_mask, zeroed
from effsparse_cli.load.onnx.stored import Array, Stored
from effsparse_cli.repair.carriers import Facts
from effsparse_cli.repair.onnx.operators import Wiring

COMPUTED = "the weight is computed from stored tensors, so that one connection changes others"
ELSEWHERE = "the weight is stored in a subgraph, a function, or a sparse or packed form"
MASK_COMPUTED = "the weight's mask is computed"


def why_fixed(wiring: Wiring, leaf: str | None, facts: Facts) -> str:
    """Empty where it can; `leaf` is the name of the layer's tensor, if one is stored under that."""
    stored = wiring.store.under(facts.layer.name)
    if stored is None or leaf is None:
        return COMPUTED
    if stored.repack is not None or leaf not in wiring.stored:
        return ELSEWHERE
    if any(stored_mask(known) is None for known in stored.altered if known.mask is not None):
        return MASK_COMPUTED
    for given in {given for _, given in wiring.uses(leaf) if given != leaf}:
        parts = [part_of(wiring, stored, leaf, given, mask) for mask in (facts.active, ~facts.active)]
        if not np.array_equal(parts[0] + parts[1], wiring.value(given, {})):
            return COMPUTED
    return ""


def part_of(wiring: Wiring, stored: Stored, leaf: str, given: str, chosen: Bools) -> Array:
    """A constant made of a stored tensor, with everything but the chosen elements of that at its zero."""
    return wiring.value(given, {leaf: zeroed(stored, chosen)})
