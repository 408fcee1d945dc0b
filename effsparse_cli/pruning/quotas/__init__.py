"""Layerwise sparsity quotas: the sizes of the layers enter, their densities for a total sparsity leave.

One file per quota. `QUOTAS[name](layers)` is the quota for a model; `densities`, `counts` and `reach` ask it, and
its own `score` turns ranks within layers into one ranking of the whole net.
"""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.pruning.quotas import erk, igq, ranked, smart_ratios, uniform, uniform_plus
from effsparse_cli.pruning.quotas.allocation import LayerSize, Quota, counts, densities, reach

QUOTAS: dict[str, Callable[..., Quota]] = {
    "uniform": uniform.quota,
    "uniform+": uniform_plus.quota,
    "erk": erk.quota,
    "igq": igq.quota,
    "smart-ratios": smart_ratios.quota,
}

from_scores = ranked.quota

__all__ = ["QUOTAS", "LayerSize", "Quota", "counts", "densities", "from_scores", "reach"]
