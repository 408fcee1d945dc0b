"""Layerwise sparsity quotas: from the sizes of the layers and a total sparsity to the density of each layer.

To add a quota, write a function `quota(layers) -> Quota` in a file of this folder and add a row to QUOTAS in
`effsparse_cli/pruning/__init__.py`. `densities`, `counts` and `reach` work for every quota.
"""

from __future__ import annotations

from effsparse_cli.pruning.quotas.allocation import LayerSize, Quota, counts, densities, find_pressure, reach, sizes_of

__all__ = ["LayerSize", "Quota", "counts", "densities", "find_pressure", "reach", "sizes_of"]
