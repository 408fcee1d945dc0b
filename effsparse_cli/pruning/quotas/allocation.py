"""Shared by all quotas: the densities and the counts of the layers at a total sparsity.

A quota compresses all layers by one common pressure: at pressure 0 they are as dense as its rule allows, at infinity as
sparse. A total sparsity corresponds to one pressure, and the pressure at which a connection is pruned is a score that
can be compared between layers: keeping every score >= t leaves the quota's densities at pressure t."""

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
    """A layer, as seen by a quota. Layers whose `op` contains "conv" are convolutions (conv2d, conv_transpose1d);
    all others count as linear."""

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
    """A quota for one model. `at` returns one density per layer for a pressure in [0, inf], and never increases with
    it.

    `score` takes a layer's position and u = (rank + 0.5) / n of its weights (rank 0 is pruned first) and returns the
    largest pressure that keeps each weight: inf if no pressure removes it, -inf if none keeps it.
    """

    name: str
    layers: tuple[LayerSize, ...]
    at: Callable[[float], Floats]
    score: Callable[[int, Floats], Floats]


def sizes_of(layers: Sequence[LayerSize]) -> Floats:
    return np.array([layer.weights for layer in layers], dtype=np.float64)


def reach(quota: Quota) -> tuple[float, float]:
    """Return the smallest and the largest total sparsity of the quota for this model.

    The largest itself is out of reach if it leaves some layers empty and others not.
    """
    total = float(sizes_of(quota.layers).sum())
    return 1 - _kept(quota, 0.0) / total, 1 - _kept(quota, math.inf) / total


def densities(quota: Quota, sparsity: float) -> Floats:
    """Return one density per layer, with sum(density * weights) = (1 - sparsity) * all weights (the paper's
    Definition 1). Densities are monotone in the sparsity to the last bit."""
    if not 0 <= sparsity <= 1:
        raise UsageError(f"sparsity {sparsity} is not between 0 and 1")
    total = float(sizes_of(quota.layers).sum())
    kept = (1 - sparsity) * total
    _check_reach(quota, sparsity, kept, 1e-12 * total)
    with np.errstate(divide="ignore", over="ignore"):
        return quota.at(find_pressure(quota, kept))


def counts(densities: Floats, layers: Sequence[LayerSize], sparsity: float) -> Counts:
    """Return the kept connections per layer, round((1 - sparsity) * all) in total.

    Remainders are distributed largest first, ties by position. No layer with a nonzero density is left empty if the
    total allows it.
    """
    sizes = sizes_of(layers)
    total = round((1 - sparsity) * float(sizes.sum()))
    exact = densities * sizes
    # Less than a millionth of a connection is a rounding error in a layer that should be empty.
    least = (exact > 1e-6).astype(np.float64)
    if least.sum() > total:
        least[:] = 0
    shares = np.clip(np.floor(exact), least, sizes)
    # At most one step per layer: the difference comes from rounding each layer once.
    while (missing := total - int(shares.sum())) != 0:
        step = 1 if missing > 0 else -1
        free = shares < sizes if missing > 0 else shares > least
        shares[np.argmax(np.where(free, step * (exact - shares), -np.inf))] += step
    return shares.astype(np.int64)


def _kept(quota: Quota, pressure: float) -> float:
    with np.errstate(divide="ignore", over="ignore"):
        return float((quota.at(pressure) * sizes_of(quota.layers)).sum())


def find_pressure(quota: Quota, kept: float) -> float:
    """Return the largest pressure that leaves `kept` connections, or an end of the range.

    Bisects the bit patterns of floats, which are ordered like the numbers: 63 steps, exact at any scale.
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
    # Round inwards, so that the sparsities in the message can be reached.
    ends = math.ceil(low * 1e6) / 1e6, math.floor(high * 1e6) / 1e6
    span = f"from {ends[0]:g} to {'just below ' if open_end else ''}{ends[1]:.6g}" if low < high else f"only {low:.6g}"
    raise UsageError(
        f"the quota {quota.name} cannot reach a sparsity of {sparsity:g} for this model: it reaches {span}. "
        "Choose a sparsity in this range, or a quota without bounds: igq, erk, uniform"
    )


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
