"""Erdos-Renyi-Kernel (Mocanu et al. 2018, Evci et al. 2020): a layer's density is proportional to the sum of its
weight's dimensions over their product.

RigL makes layers that would exceed density 1 dense, the largest first, and scales the others again until all
fit. That is min(1, rate / pressure): scaling again only raises the others, so a layer once at 1 stays there.
"""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.pruning.quotas.allocation import LayerSize, Quota
from effsparse_cli.pruning.quotas.clipped import clipped


def quota(layers: Sequence[LayerSize], *, strict: bool = False) -> Quota:
    """`strict` refuses sparsities at which a layer would exceed density 1, as the paper counts ERK's range:
    every layer then stops where the one with the highest rate is dense."""
    rates = [sum(layer.shape) / layer.weights for layer in layers]
    ceilings = [rate / max(rates) if strict else 1.0 for rate in rates]
    return clipped("erk (strict)" if strict else "erk", layers, rates, [0] * len(layers), ceilings)
