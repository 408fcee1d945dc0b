"""Decide which bias carriers of a layer are removed: those whose measured constant is the same at all positions and can
be added to a bias, or is zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.constant_ranges import ROUNDINGS, ConstantRange, Floats, find_constants
from effsparse_cli.graph.primitives import Bools, Ints

NOT_UNIFORM = "their constant is not the same at all positions (padding, or a constant per position)"
DIFFERENT = "the weight is used several times, with different constants"


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
