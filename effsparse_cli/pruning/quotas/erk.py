"""Erdos-Renyi-Kernel (Mocanu et al. 2018, Evci et al. 2020): a layer's density is proportional to the sum of its
weight's dimensions over their product.

RigL makes layers that would exceed density 1 dense, the largest first, and rescales the others until all fit. That is
min(1, rate / pressure): rescaling only raises the other densities, so a dense layer stays dense.
"""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.pruning.quotas.allocation import LayerSize, Quota, clipped


def quota(layers: Sequence[LayerSize], *, strict: bool = False) -> Quota:
    """With `strict`, the range ends where the layer with the highest rate is dense, as in the paper: no sparsity at
    which a layer would exceed density 1."""
    rates = [sum(layer.shape) / layer.weights for layer in layers]
    ceilings = [rate / max(rates) if strict else 1.0 for rate in rates]
    return clipped("erk (strict)" if strict else "erk", layers, rates, [0] * len(layers), ceilings)
