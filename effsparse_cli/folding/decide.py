"""Decide which bias carriers of a layer are removed: those that add the same to an operator's output at all positions
that matter, for several inputs and apart from rounding, if that constant is zero or can be added to a bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.folding.carriers import LayerActivity, OperatorOutput
from effsparse_cli.graph.primitives import Bools, Ints

Floats = NDArray[np.floating[Any]]
INPUT_SEEDS = (11, 12)
"""Seeds of the two inputs to measure with: what differs between them is not a constant."""
ROUNDINGS = 64
"""Units in the last place of the sum of magnitudes that a constant may vary: the order of summation is not fixed."""
NOT_UNIFORM = "their constant is not the same at all positions (padding, or a constant per position)"
DIFFERENT = "the weight is used several times, with different constants"


@dataclass(frozen=True, eq=False)
class ConstantRange:
    """For each channel the smallest and largest amount, and the largest sum of the magnitudes of its summands."""

    low: Floats
    high: Floats
    scale: Floats


def measure_range(amount: Floats, magnitude: Floats, axis: int, output: OperatorOutput | None) -> ConstantRange:
    """Return the range of `amount`, the sum that the carriers add, per channel (along `axis`).

    `magnitude` is the same with absolute values. Positions that are known not to matter are ignored."""
    rows = [np.moveaxis(a, axis, 0).reshape(a.shape[axis], -1) for a in (amount, magnitude)]
    if output is None or output.shape != amount.shape:
        return ConstantRange(rows[0].min(1), rows[0].max(1), rows[1].max(1))
    relevant = np.moveaxis(np.broadcast_to(output.relevant, amount.shape), axis, 0).reshape(rows[0].shape)
    low = rows[0].min(1, initial=np.inf, where=relevant)
    high = rows[0].max(1, initial=-np.inf, where=relevant)
    none = ~relevant.any(1)
    low[none] = high[none] = 0
    return ConstantRange(low, high, rows[1].max(1, initial=0, where=relevant))


def merge_ranges(ranges: list[ConstantRange]) -> ConstantRange:
    """Return the range over several inputs."""
    return reduce(
        lambda a, b: ConstantRange(np.minimum(a.low, b.low), np.maximum(a.high, b.high), np.maximum(a.scale, b.scale)),
        ranges,
    )


def find_constants(measured: ConstantRange, epsilon: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the constant of each channel and whether it is one; `epsilon` is that of the computation's type."""
    finite = np.isfinite(measured.low) & np.isfinite(measured.high)
    low, high = (np.where(finite, bound, 0) for bound in (measured.low, measured.high))
    return low + (high - low) / 2, finite & (high - low <= ROUNDINGS * epsilon * measured.scale)


@dataclass(frozen=True, eq=False)
class BiasSlot:
    """A place for the constants of an operator: elements `index` of a stored tensor, one per channel, with a
    sign (a running mean is subtracted). `new` if the tensor does not exist yet."""

    name: str
    index: Ints
    sign: int = 1
    new: bool = False


@dataclass(frozen=True, eq=False)
class MeasuredUse:
    """One operator that uses the weight: what its carriers add, and the slot for it, or why there is none."""

    range: ConstantRange
    slot: BiasSlot | None
    why_no_slot: str = ""


@dataclass(frozen=True, eq=False)
class Decision:
    """Which carriers are removed, what is added to each slot by channel, and why the other carriers stay."""

    removed: Bools
    amounts: tuple[tuple[BiasSlot, Floats], ...] = ()
    reason: str = ""


def decide(activity: LayerActivity, uses: Sequence[MeasuredUse], epsilon: float) -> Decision:
    """Decide about the carriers of one layer, given all of its uses."""
    known = [find_constants(use.range, epsilon) for use in uses]
    # A constant of zero needs no slot: a relu may have cut it off.
    movable = [
        uniform & ((use.slot is not None) | (amount == 0)) for use, (amount, uniform) in zip(uses, known, strict=True)
    ]
    no_slot = [
        use.why_no_slot for use, (_, uniform), ok in zip(uses, known, movable, strict=True) if (uniform & ~ok).any()
    ]
    reason = no_slot[0] if no_slot else NOT_UNIFORM
    amounts = [(use.slot, amount) for use, (amount, _) in zip(uses, known, strict=True) if use.slot is not None]
    if len(uses) == 1 and activity.by_channel:
        ok = movable[0]
        removed = activity.carrier if ok.all() else activity.carrier & ~activity.carriers_in(~ok)
        added = tuple((slot, np.where(ok, amount, 0)) for slot, amount in amounts if amount[ok].any())
        return Decision(removed, added, reason)
    if not all(ok.all() for ok in movable):
        return Decision(np.zeros_like(activity.carrier), reason=reason)
    largest = max(float(use.range.scale.max(initial=0)) for use in uses)
    if not _agree(amounts, largest * ROUNDINGS * epsilon):
        return Decision(np.zeros_like(activity.carrier), reason=DIFFERENT)
    return Decision(activity.carrier, tuple(_without_repeats(amounts)), reason)


def _agree(amounts: Sequence[tuple[BiasSlot, Floats]], tolerance: float) -> bool:
    """Whether operators that share a bias need the same constants."""
    needed: dict[tuple[str, int], float] = {}
    for slot, amount in amounts:
        for position, value in zip(slot.index.tolist(), amount.tolist(), strict=True):
            if abs(needed.setdefault((slot.name, position), value) - value) > tolerance:
                return False
    return True


def _without_repeats(amounts: Sequence[tuple[BiasSlot, Floats]]) -> list[tuple[BiasSlot, Floats]]:
    """Add to a bias that several operators share only once."""
    seen: set[tuple[str, int]] = set()
    unique = []
    for slot, amount in amounts:
        elements = [(slot.name, position) for position in slot.index.tolist()]
        first = np.array([element not in seen for element in elements], bool)
        seen.update(elements)
        unique.append((slot, np.where(first, amount, 0)))
    return unique
