"""What a quota is, and what every quota gives: the densities and the counts of the layers at a total sparsity.

A quota squeezes all layers by one common pressure: at pressure 0 they are as dense as its rule allows, at
infinity as sparse. A total sparsity is one pressure, and the pressure at which a connection falls is a score
that all layers share: keeping every score >= t leaves the quota's densities at pressure t, for every t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class LayerSize:
    """What a quota knows of a layer. A convolution says so in its `op` (conv2d, conv_transpose1d); all other
    layers multiply by a matrix and count as linear."""

    name: str
    shape: tuple[int, ...]
    op: str

    @property
    def weights(self) -> int:
        return math.prod(self.shape)

    @property
    def convolution(self) -> bool:
        return "conv" in self.op


@dataclass(frozen=True)
class Quota:
    """A quota for one model. `at` gives one density per layer for a pressure in [0, inf], never rising with it.

    `score` takes a layer's position and u = (rank + 0.5) / n of its weights (rank 0 falls first) and gives the
    largest pressure that still keeps each: inf for what no pressure removes, -inf for what none keeps.
    """

    name: str
    layers: tuple[LayerSize, ...]
    at: Callable[[float], Floats]
    score: Callable[[int, Floats], Floats]


def sizes_of(layers: Sequence[LayerSize]) -> Floats:
    return np.array([layer.weights for layer in layers], dtype=np.float64)


def reach(quota: Quota) -> tuple[float, float]:
    """The smallest and the largest total sparsity that the quota has for this model. The largest is itself
    out of reach where some layers would be empty there and others not."""
    total = float(sizes_of(quota.layers).sum())
    return 1 - _kept(quota, 0.0) / total, 1 - _kept(quota, math.inf) / total


def densities(quota: Quota, sparsity: float) -> Floats:
    """One density per layer, with sum(density * weights) = (1 - sparsity) * all weights (the paper's
    Definition 1). Monotone in the sparsity to the last bit."""
    if not 0 <= sparsity <= 1:
        raise UsageError(f"a sparsity lies between 0 and 1, not at {sparsity}")
    total = float(sizes_of(quota.layers).sum())
    kept = (1 - sparsity) * total
    _check_reach(quota, sparsity, kept, 1e-12 * total)
    with np.errstate(divide="ignore", over="ignore"):
        return quota.at(_pressure(quota, kept))


def counts(densities: Floats, layers: Sequence[LayerSize], sparsity: float) -> Counts:
    """Kept connections per layer: round((1 - sparsity) * all) in total, by the largest remainder, ties by
    position. No layer that has a density is left empty, where the total allows it."""
    sizes = sizes_of(layers)
    total = round((1 - sparsity) * float(sizes.sum()))
    wanted = densities * sizes
    # Less than a millionth of a connection is what rounding left of a layer that is meant to be empty.
    least = (wanted > 1e-6).astype(np.float64)
    if least.sum() > total:
        least[:] = 0
    given = np.clip(np.floor(wanted), least, sizes)
    # At most one step per layer: what is missing or too many comes from rounding each layer once.
    while (missing := total - int(given.sum())) != 0:
        step = 1 if missing > 0 else -1
        free = given < sizes if missing > 0 else given > least
        given[np.argmax(np.where(free, step * (wanted - given), -np.inf))] += step
    return given.astype(np.int64)


def _kept(quota: Quota, pressure: float) -> float:
    with np.errstate(divide="ignore", over="ignore"):
        return float((quota.at(pressure) * sizes_of(quota.layers)).sum())


def _pressure(quota: Quota, kept: float) -> float:
    """The largest pressure that leaves so many, or an end of the range.

    Bisected over the bit patterns of floats, which rise with the numbers: 63 steps, exact, at any scale.
    """
    if _kept(quota, 0.0) <= kept:
        return 0.0
    if _kept(quota, math.inf) >= kept:
        return math.inf
    low, high = 0, int(np.float64(np.inf).view(np.int64))
    while high - low > 1:
        middle = (low + high) // 2
        if _kept(quota, float(np.int64(middle).view(np.float64))) >= kept:
            low = middle
        else:
            high = middle
    return float(np.int64(low).view(np.float64))


def _check_reach(quota: Quota, sparsity: float, kept: float, slack: float) -> None:
    sparsest = quota.at(math.inf)
    open_end = bool(sparsest.any() and not sparsest.all())
    too_few = kept <= _kept(quota, math.inf) + slack if open_end else kept < _kept(quota, math.inf) - slack
    if not too_few and kept <= _kept(quota, 0.0) + slack:
        return
    low, high = reach(quota)
    # Rounded inwards, so that what the message names can be had.
    ends = math.ceil(low * 1e6) / 1e6, math.floor(high * 1e6) / 1e6
    span = f"from {ends[0]:g} to {'just below ' if open_end else ''}{ends[1]:.6g}" if low < high else f"only {low:.6g}"
    raise UsageError(
        f"the quota {quota.name} cannot reach a sparsity of {sparsity:g} for this model: it reaches {span}. "
        "Choose a sparsity in this range, or a quota that has no bounds: igq, erk, uniform"
    )
