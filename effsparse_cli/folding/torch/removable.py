"""Tell whether a connection can be removed by setting one stored number to zero, which it cannot if the weight is
computed in a way that mixes stored numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from effsparse_cli.errors import LoadError
from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.torch.wiring import Wiring

COMPUTED = "the weight is computed from stored tensors, so one connection changes others"
CODED = "the weight is stored in a sparse or quantised form"


def why_fixed(wiring: Wiring, leaves: Sequence[fx.Node], activity: LayerActivity) -> str:
    """Return why no connection of a layer can be removed, "" if they can; `leaves` are its placeholders."""
    tensors = [wiring.traced.stored[wiring.leaves[leaf]] for leaf in leaves]
    if any(tensor.layout != torch.strided or tensor.is_quantized for tensor in tensors):
        return CODED
    whole = bool(tensors) and all(tuple(tensor.shape) == activity.layer.shape for tensor in tensors)
    return "" if whole and all(_is_sum_of_parts(wiring, leaf, activity) for leaf in leaves) else COMPUTED


def _is_sum_of_parts(wiring: Wiring, leaf: fx.Node, activity: LayerActivity) -> bool:
    """Whether what operators read is the sum of what active and inactive connections contribute separately."""
    active = torch.from_numpy(activity.active)
    for weight in {read for _, read in wiring.uses(leaf) if read is not leaf}:
        try:
            parts = [select_elements(wiring, leaf, weight, mask) for mask in (active, ~active)]
            if not torch.equal(parts[0] + parts[1], wiring.evaluate(weight, {})):
                return False
        except (LoadError, NotImplementedError, RuntimeError, TypeError):
            return False
    return True


def select_elements(wiring: Wiring, leaf: fx.Node, weight: fx.Node, chosen: torch.Tensor) -> torch.Tensor:
    """Evaluate a weight with all but the chosen elements of its stored tensor at zero."""
    tensor = wiring.evaluate(leaf, {})
    only = torch.where(chosen.to(tensor.device), tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))
    return wiring.evaluate(weight, {leaf: only})
