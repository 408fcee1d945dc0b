"""Quotas whose densities are proportional to fixed rates, clipped between a floor and a ceiling.

All but IGQ have this form: a layer that reaches a bound stays there, and the others share the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from effsparse_cli.pruning.quotas.allocation import Floats, LayerSize, Quota


def clipped(
    name: str, layers: Sequence[LayerSize], rates: Sequence[float], floors: Sequence[float], ceilings: Sequence[float]
) -> Quota:
    """Return the quota with density min(ceiling, max(floor, rate / pressure)); equal bounds fix a layer's density."""
    rate, floor, ceiling = (np.array(x, dtype=np.float64) for x in (rates, floors, ceilings))

    def at(pressure: float) -> Floats:
        return np.clip(rate / pressure, floor, ceiling)

    def score(layer: int, u: Floats) -> Floats:
        density = 1 - u
        pressure: Floats = rate[layer] / density
        if floor[layer] > 0:
            pressure[density <= floor[layer]] = math.inf
        if ceiling[layer] < 1:
            pressure[density > ceiling[layer]] = -math.inf
        return pressure

    return Quota(name, tuple(layers), at, score)
