"""Can a connection be removed by setting one stored number to zero? Not where the weight is computed from others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from effsparse_cli.errors import LoadError
from effsparse_cli.folding.carriers import Facts
from effsparse_cli.folding.torch.operators import Wiring

COMPUTED = "the weight is computed from stored tensors, so that one connection changes others"
CODED = "the weight is stored in a sparse or quantised form"


def why_fixed(wiring: Wiring, leaves: Sequence[fx.Node], facts: Facts) -> str:
    """Empty where it can; `leaves` are the placeholders of the layer's tensor."""
    tensors = [wiring.traced.stored[wiring.leaves[leaf]] for leaf in leaves]
    if any(tensor.layout != torch.strided or tensor.is_quantized for tensor in tensors):
        return CODED
    whole = bool(tensors) and all(tuple(tensor.shape) == facts.layer.shape for tensor in tensors)
    return "" if whole and all(_is_apart(wiring, leaf, facts) for leaf in leaves) else COMPUTED


def _is_apart(wiring: Wiring, leaf: fx.Node, facts: Facts) -> bool:
    """Is what operators get the sum of what active and inactive connections give alone?"""
    active = torch.from_numpy(facts.active)
    for given in {given for _, given in wiring.uses(leaf) if given is not leaf}:
        try:
            parts = [part_of(wiring, leaf, given, mask) for mask in (active, ~active)]
            if not torch.equal(parts[0] + parts[1], wiring.evaluate(given, {})):
                return False
        except (LoadError, NotImplementedError, RuntimeError, TypeError):
            return False
    return True


def part_of(wiring: Wiring, leaf: fx.Node, given: fx.Node, chosen: torch.Tensor) -> torch.Tensor:
    """A constant made of a stored tensor, with everything but the chosen elements of that at zero."""
    tensor = wiring.evaluate(leaf, {})
    only = torch.where(chosen.to(tensor.device), tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))
    return wiring.evaluate(given, {leaf: only})
