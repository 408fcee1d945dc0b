"""From facts about positions to those that stay: the smallest set that has all that is needed and in which every
operator still finds its operands in step. What is left out of it can be cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.compaction.positions import Box, Facts, Ids, Terms
from effsparse_cli.graph.primitives import Bools


@dataclass(frozen=True, eq=False)
class Kept:
    """`groups` gives each position the number of the group that it belongs to; `spare` counts groups of convolutions
    that stay only to make up blocks."""

    groups: Ids
    stays: Bools
    spare: int = 0

    def of(self, ids: Ids) -> Bools:
        return self.stays[self.groups[ids]]

    def count(self, ids: Ids) -> int:
        return int(self.of(ids).sum())


def solve(facts: Facts, block: int = 1) -> Kept:
    """What is needed, and where that leaves an axis nothing, one position that keeps its place. Convolutions in groups,
    depthwise ones for example, keep multiples of `block` groups."""
    needed = find_needed(facts)
    boxes = [_grouped(clause, needed.groups) for clause in facts.clauses if isinstance(clause, Box)]
    stays = _fill(needed.stays, [needed.groups[ids] for ids in facts.axes], boxes)
    grouped = [needed.groups[work.groups] for work in facts.works if work.groups is not None and len(work.groups) > 1]
    return Kept(needed.groups, stays, _make_blocks(stays, grouped, boxes, block))


def find_needed(facts: Facts) -> Kept:
    groups = connect(facts.size, facts.joins)
    needed = np.zeros(facts.size, bool)
    for ids in facts.needs:
        needed[groups[ids]] = True
    # Readers come after what they read, so that one round backwards settles most.
    _settle([_grouped(clause, groups) for clause in reversed(facts.clauses)], needed)
    return Kept(groups, needed)


def connect(size: int, joins: list[tuple[Ids, Ids]]) -> Ids:
    """Positions that are joined, directly or through others, get the same number."""
    groups = np.arange(size, dtype=np.int64)
    if not joins:
        return groups
    a = np.concatenate([pair[0] for pair in joins])
    b = np.concatenate([pair[1] for pair in joins])
    while True:
        roots_a, roots_b = groups[a], groups[b]
        apart = roots_a != roots_b
        if not apart.any():
            return groups
        a, b, roots_a, roots_b = a[apart], b[apart], roots_a[apart], roots_b[apart]
        np.minimum.at(groups, np.maximum(roots_a, roots_b), np.minimum(roots_a, roots_b))
        while (groups[groups] != groups).any():
            groups = groups[groups]


def _grouped(clause: Box | Terms, groups: Ids) -> Box | Terms:
    if isinstance(clause, Box):
        return Box(groups[clause.whole], tuple(groups[part] for part in clause.parts))
    return Terms(clause.nonzero, tuple(groups[ids] for ids in clause.axes), clause.summed)


def _settle(clauses: Sequence[Box | Terms], needed: Bools) -> None:
    """Until nothing new follows from any clause."""
    changed = True
    while changed:
        changed = False
        for clause in clauses:
            changed |= _apply(clause, needed)


def _apply(clause: Box | Terms, needed: Bools) -> bool:
    """Marks what follows from the clause; True if that is anything new."""
    return _apply_box(clause, needed) if isinstance(clause, Box) else _apply_terms(clause, needed)


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


def _apply_box(box: Box, needed: Bools) -> bool:
    shape = tuple(len(part) for part in box.parts)
    whole = needed[box.whole].reshape(shape)
    every = np.ones(shape, bool)
    changed = False
    for axis, part in enumerate(box.parts):
        others = tuple(i for i in range(len(shape)) if i != axis)
        changed |= _mark(needed, part[whole.any(axis=others)])
        every &= _along(needed[part], axis, len(shape))
    return _mark(needed, box.whole[every.reshape(-1)]) or changed


def _along(values: Bools, axis: int, rank: int) -> NDArray[np.bool_]:
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def _mark(needed: Bools, ids: Ids) -> bool:
    if needed[ids].all():
        return False
    needed[ids] = True
    return True


def _fill(needed: Bools, axes: list[Ids], boxes: Sequence[Box | Terms]) -> Bools:
    """No tensor can do without any position. What one holds that nothing needs is of no consequence, so that it needs
    nothing in turn and only keeps its place among its like."""
    stays = needed.copy()
    for ids in axes:
        if len(ids) and not stays[ids].any():
            stays[ids[0]] = True
            _settle(boxes, stays)
    return stays


def _make_blocks(stays: Bools, axes: list[Ids], boxes: Sequence[Box | Terms], block: int) -> int:
    """In place, wherever the axis has so many; again what is added needs nothing in turn."""
    spare = 0
    for ids in axes:
        number = int(stays[ids].sum())
        more = -number % block
        if more and number + more <= len(ids):
            stays[ids[~stays[ids]][:more]] = True
            _settle(boxes, stays)
            spare += more
    return spare
