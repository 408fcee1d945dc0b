"""What carriers add to an operator's output, in numbers: measured over all positions that matter and several inputs,
it is one constant per channel or it is not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.folding.carriers import Target

Floats = NDArray[np.floating[Any]]
ROUNDINGS = 64
"""How many units in the last place of its largest summand a constant may vary: positions are summed in any order."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Per channel: the smallest and largest amount found, and the largest sum of the summands' magnitudes."""

    low: Floats
    high: Floats
    scale: Floats


def measure(amount: Floats, magnitude: Floats, axis: int, target: Target | None) -> Spread:
    """`amount` is what the carriers add, `magnitude` the same of absolute values; `axis` has the channels. Positions
    that do not matter are left out, where that is known."""
    rows = [np.moveaxis(a, axis, 0).reshape(a.shape[axis], -1) for a in (amount, magnitude)]
    if target is None or target.shape != amount.shape:
        return Spread(rows[0].min(1), rows[0].max(1), rows[1].max(1))
    relevant = np.moveaxis(np.broadcast_to(target.relevant, amount.shape), axis, 0).reshape(rows[0].shape)
    low = rows[0].min(1, initial=np.inf, where=relevant)
    high = rows[0].max(1, initial=-np.inf, where=relevant)
    none = ~relevant.any(1)
    low[none] = high[none] = 0
    return Spread(low, high, rows[1].max(1, initial=0, where=relevant))


def union(spreads: list[Spread]) -> Spread:
    """Over several inputs."""
    return reduce(
        lambda a, b: Spread(np.minimum(a.low, b.low), np.maximum(a.high, b.high), np.maximum(a.scale, b.scale)), spreads
    )


def constants(spread: Spread, epsilon: float) -> tuple[Floats, NDArray[np.bool_]]:
    """The constant of each channel, and whether it is one; `epsilon` is that of the type the model computes in."""
    finite = np.isfinite(spread.low) & np.isfinite(spread.high)
    low, high = (np.where(finite, bound, 0) for bound in (spread.low, spread.high))
    return low + (high - low) / 2, finite & (high - low <= ROUNDINGS * epsilon * spread.scale)
