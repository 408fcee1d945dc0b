"""Which positions stay: the smallest set that has all needed positions and in which the operands of every operator
still correspond. All others can be removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.compaction.positions import Ids, MergedAxis, PositionFacts, Terms
from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True, eq=False)
class Kept:
    """`groups` has the number of the group that each position belongs to; `spare` is the number of convolution groups
    that are kept only to fill blocks."""

    groups: Ids
    stays: Bools
    spare: int = 0

    def of(self, ids: Ids) -> Bools:
        """Return which of these positions are kept."""
        return self.stays[self.groups[ids]]

    def count(self, ids: Ids) -> int:
        return int(self.of(ids).sum())


def solve(facts: PositionFacts, block: int = 1) -> Kept:
    """Return the needed positions, and one of every axis that has none. Convolutions keep a multiple of `block`."""
    needed = find_needed(facts)
    merged_axes = [_grouped(clause, needed.groups) for clause in facts.clauses if isinstance(clause, MergedAxis)]
    stays = _fill(needed.stays, [needed.groups[ids] for ids in facts.axes], merged_axes)
    grouped = [needed.groups[work.groups] for work in facts.works if work.groups is not None and len(work.groups) > 1]
    return Kept(needed.groups, stays, _make_blocks(stays, grouped, merged_axes, block))


def find_needed(facts: PositionFacts) -> Kept:
    groups = connect(facts.size, facts.joins)
    needed = np.zeros(facts.size, bool)
    for ids in facts.needs:
        needed[groups[ids]] = True
    # Readers come after what they read, so one round backward settles most of it.
    _settle([_grouped(clause, groups) for clause in reversed(facts.clauses)], needed)
    return Kept(groups, needed)


def connect(size: int, joins: list[tuple[Ids, Ids]]) -> Ids:
    """Return a number for each position, the same for positions that are joined directly or through others."""
    groups = np.arange(size, dtype=np.int64)
    if not joins:
        return groups
    a = np.concatenate([pair[0] for pair in joins])
    b = np.concatenate([pair[1] for pair in joins])
    while True:
        roots_a, roots_b = groups[a], groups[b]
        split = roots_a != roots_b
        if not split.any():
            return groups
        a, b, roots_a, roots_b = a[split], b[split], roots_a[split], roots_b[split]
        np.minimum.at(groups, np.maximum(roots_a, roots_b), np.minimum(roots_a, roots_b))
        while (groups[groups] != groups).any():
            groups = groups[groups]


def _grouped(clause: MergedAxis | Terms, groups: Ids) -> MergedAxis | Terms:
    if isinstance(clause, MergedAxis):
        return MergedAxis(groups[clause.whole], tuple(groups[part] for part in clause.parts))
    return Terms(clause.nonzero, tuple(groups[ids] for ids in clause.axes), clause.summed)


def _settle(clauses: Sequence[MergedAxis | Terms], needed: Bools) -> None:
    """Apply the clauses until nothing new follows from any of them."""
    changed = True
    while changed:
        changed = False
        for clause in clauses:
            changed |= _apply(clause, needed)


def _apply(clause: MergedAxis | Terms, needed: Bools) -> bool:
    """Mark what follows from a clause. Return whether anything is new."""
    return _apply_merged_axis(clause, needed) if isinstance(clause, MergedAxis) else _apply_terms(clause, needed)


def _apply_terms(terms: Terms, needed: Bools) -> bool:
    changed = False
    for axis in terms.summed:
        ids = terms.axes[axis]
        if needed[ids].all():
            continue
        others = [i for i in range(len(terms.axes)) if i != axis]
        chosen = [np.flatnonzero(needed[terms.axes[i]]) for i in range(len(terms.axes))]
        chosen[axis] = np.flatnonzero(~needed[ids])
        found = chosen[axis][terms.nonzero[np.ix_(*chosen)].any(axis=tuple(others))]
        changed |= _mark(needed, ids[found])
    return changed


def _apply_merged_axis(merged: MergedAxis, needed: Bools) -> bool:
    shape = tuple(len(part) for part in merged.parts)
    whole = needed[merged.whole].reshape(shape)
    every = np.ones(shape, bool)
    changed = False
    for axis, part in enumerate(merged.parts):
        others = tuple(i for i in range(len(shape)) if i != axis)
        changed |= _mark(needed, part[whole.any(axis=others)])
        every &= _along(needed[part], axis, len(shape))
    return _mark(needed, merged.whole[every.reshape(-1)]) or changed


def _along(values: Bools, axis: int, rank: int) -> NDArray[np.bool_]:
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def _mark(needed: Bools, ids: Ids) -> bool:
    if needed[ids].all():
        return False
    needed[ids] = True
    return True


def _fill(needed: Bools, axes: list[Ids], merged_axes: Sequence[MergedAxis | Terms]) -> Bools:
    """Keep one position of every axis, since a tensor needs at least one. Its value does not matter, so nothing else is
    needed for it, except that merged axes stay merged axes."""
    stays = needed.copy()
    for ids in axes:
        if len(ids) and not stays[ids].any():
            stays[ids[0]] = True
            _settle(merged_axes, stays)
    return stays


def _make_blocks(stays: Bools, axes: list[Ids], merged_axes: Sequence[MergedAxis | Terms], block: int) -> int:
    """Fill groups up to multiples of `block`, in place, where there are enough. Return the number of groups added."""
    spare = 0
    for ids in axes:
        number = int(stays[ids].sum())
        more = -number % block
        if more and number + more <= len(ids):
            stays[ids[~stays[ids]][:more]] = True
            _settle(merged_axes, stays)
            spare += more
    return spare
