"""Smart-ratios (Su et al. 2020): convolution l of L layers has a density proportional to j^2 + j, j = L - l + 1;
linear layers are fixed at 0.3. Layers that would exceed density 1 are dense, and the other convolutions share the rest.

The published code differs from the paper: except for ResNets it also divides by l^2, and its correction of densities
above 1 never runs, so VGG-16 at a sparsity of 0.9 keeps 7.93 %. Here it keeps 10 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.pruning.quotas.allocation import LayerSize, Quota, clipped

LINEAR_DENSITY = 0.3
"""The density of every linear layer."""


def quota(layers: Sequence[LayerSize]) -> Quota:
    from_end = range(len(layers), 0, -1)
    rates = [j * j + j for j in from_end]
    floors = [0.0 if layer.convolution else LINEAR_DENSITY for layer in layers]
    ceilings = [1.0 if layer.convolution else LINEAR_DENSITY for layer in layers]
    return clipped("smart-ratios", layers, rates, floors, ceilings)
