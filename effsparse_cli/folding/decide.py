"""Which carriers of a layer can go: what the graph says of the layer, what was measured at the operators that use it
and where a constant could be put enter; the connections that go and the amounts to add leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from effsparse_cli.folding.carriers import Facts
from effsparse_cli.folding.uniform import ROUNDINGS, Floats, Spread, constants
from effsparse_cli.graph.primitives import Bools, Ints

NOT_UNIFORM = "their constant is not the same at all positions (padding, or a constant per position)"
DIFFERENT = "the weight is used several times, with different constants"


@dataclass(frozen=True, eq=False)
class Home:
    """Where an operator's constant can go: positions `index` of a stored tensor, one per channel, with a sign (a
    running mean is subtracted). `new` if the tensor has to be made."""

    name: str
    index: Ints
    sign: int = 1
    new: bool = False


@dataclass(frozen=True, eq=False)
class Measured:
    """One operator that uses the weight: its constants, and their home, or why there is none."""

    spread: Spread
    home: Home | None
    homeless: str = ""


@dataclass(frozen=True, eq=False)
class Decision:
    """`gone` are carriers; `amounts` by home what is to be added there, channel by channel. `reason` says why the
    other carriers stay."""

    gone: Bools
    amounts: tuple[tuple[Home, Floats], ...] = ()
    reason: str = ""


def decide(facts: Facts, found: Sequence[Measured], epsilon: float) -> Decision:
    known = [constants(each.spread, epsilon) for each in found]
    # What is uniform but has no home can go where it is nothing: a relu has cut it off, for example.
    movable = [
        uniform & ((each.home is not None) | (amount == 0))
        for each, (amount, uniform) in zip(found, known, strict=True)
    ]
    homeless = [
        each.homeless for each, (_, uniform), ok in zip(found, known, movable, strict=True) if (uniform & ~ok).any()
    ]
    reason = homeless[0] if homeless else NOT_UNIFORM
    homes = [(each.home, amount) for each, (amount, _) in zip(found, known, strict=True) if each.home is not None]
    if len(found) == 1 and facts.by_row:
        ok = movable[0]
        gone = facts.carrier if ok.all() else facts.carrier & ~facts.rows(~ok)
        return Decision(
            gone, tuple((home, np.where(ok, amount, 0)) for home, amount in homes if amount[ok].any()), reason
        )
    if not all(ok.all() for ok in movable):
        return Decision(np.zeros_like(facts.carrier), reason=reason)
    if not _agree(homes, max(float(each.spread.scale.max(initial=0)) for each in found) * ROUNDINGS * epsilon):
        return Decision(np.zeros_like(facts.carrier), reason=DIFFERENT)
    return Decision(facts.carrier, tuple(_once(homes)), reason)


def _agree(homes: Sequence[tuple[Home, Floats]], tolerance: float) -> bool:
    """Operators that share a bias must want the same of it."""
    wanted: dict[tuple[str, int], float] = {}
    for home, amount in homes:
        for position, value in zip(home.index.tolist(), amount.tolist(), strict=True):
            if abs(wanted.setdefault((home.name, position), value) - value) > tolerance:
                return False
    return True


def _once(homes: Sequence[tuple[Home, Floats]]) -> list[tuple[Home, Floats]]:
    """What several operators want of one bias is added once."""
    seen: set[tuple[str, int]] = set()
    made = []
    for home, amount in homes:
        places = [(home.name, position) for position in home.index.tolist()]
        fresh = np.array([place not in seen for place in places], bool)
        seen.update(places)
        made.append((home, np.where(fresh, amount, 0)))
    return made
