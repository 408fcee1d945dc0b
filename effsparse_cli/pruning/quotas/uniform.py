"""Uniform: every layer has the total sparsity. The pressure is the compression, 1 / density."""

from __future__ import annotations

from collections.abc import Sequence

from effsparse_cli.pruning.quotas.allocation import LayerSize, Quota, clipped


def quota(layers: Sequence[LayerSize]) -> Quota:
    n = len(layers)
    return clipped("uniform", layers, [1] * n, [0] * n, [1] * n)
