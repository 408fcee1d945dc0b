"""Contractions over packed bits: forward, backward, and which connections join live to relevant.

A tap of a full channel that covers every position makes its target full at once, which whole rows of bits settle; only
what is left lists its set bits and joins the maps that they read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from effsparse_cli.graph.primitives import Bools, Ints
from effsparse_cli.paths.bits import anywhere, every
from effsparse_cli.paths.edges import Ends
from effsparse_cli.paths.maps import EMPTY, FULL, Numbers, Space, Value, as_keys, join, plain
from effsparse_cli.paths.rows import Reads, Rows, Some
from effsparse_cli.paths.shifts import Shifts


class Channels(NamedTuple):
    """The channels of a value along `axis`: the number of the map of each, None if all are full; and the space of those
    maps, None if there are only empty and full ones."""

    axis: int
    numbers: Numbers | None
    space: Space | None


def forward(x: Channels, rows: Rows, shifts: Shifts, into: Space) -> Value:
    """Live targets."""
    if x.numbers is None:
        saturated = rows.rows_with(shifts.columns(rows, always=True))
    else:
        is_full = x.numbers == FULL
        saturated = rows.rows_with(is_full if shifts.all_always else is_full[:, None] & shifts.always)
    if (shifts.all_always and x.space is None) or every(saturated):
        return plain(saturated, x.axis, len(into.rest) + 1)
    return _settle(x, saturated, rows.read_by_rows(~saturated, x.numbers), shifts, into)


def backward(y: Channels, rows: Rows, shifts: Shifts, into: Space) -> Value:
    """Relevant sources. `shifts` lead from targets back to sources."""
    from_full = rows.columns_of(None if y.numbers is None else y.numbers == FULL)
    saturated = shifts.saturated(from_full)
    if (shifts.all_always and y.space is None) or every(saturated):
        return plain(saturated, y.axis, len(into.rest) + 1)
    unsettled = ~saturated
    channel, tap = (from_full & unsettled[:, None]).nonzero()
    reads = Reads(channel, tap, np.full(len(channel), FULL))
    if y.numbers is not None and y.space is not None:
        more = rows.read_by_columns(np.where(y.numbers > FULL, y.numbers, EMPTY), unsettled)
        reads = Reads(*map(np.concatenate, zip(reads, more, strict=True)))
    return _settle(y, saturated, reads, shifts, into)


def _settle(x: Channels, saturated: Bools, reads: Reads, shifts: Shifts, into: Space) -> Value:
    """Every channel that is not saturated is the union of what its taps read: first of full maps, by sets of taps, then
    of others, where no full map is read by the same tap."""
    found = saturated.astype(np.intp)
    channel, tap, numbers = reads
    is_reading = np.zeros(len(saturated), bool)
    is_reading[channel] = True
    reading = is_reading.nonzero()[0]
    place = (is_reading.cumsum() - 1)[channel]
    taps = np.zeros((len(reading), shifts.taps), bool)
    of_full = numbers == FULL
    taps[place[of_full], tap[of_full]] = True
    keys, known = as_keys(np.packbits(taps, axis=1, bitorder="little")), into.sets(shifts)
    for key in set(keys).difference(known):
        known[key] = into.number_of[shifts.union_of(key)]
    results = list(map(known.__getitem__, keys))
    if x.space is not None:
        more = ~taps[place, tap]
        codes = (numbers[more] * shifts.taps + tap[more]).tolist()
        read = shifts.read(codes, x.space)
        unions: dict[int, int] = {}
        for i, code in zip(place[more].tolist(), codes, strict=True):
            unions[i] = unions.get(i, 0) | read[code]
        for i, union in unions.items():
            results[i] = into.number_of[union | into.maps[results[i]]]
    found[reading] = results
    return join(x.axis, found, into)


def meet(x: Channels, y: Channels, rows: Rows, forward: Shifts, backward: Shifts) -> Ends:
    source = target = missed = None
    if x.numbers is not None and not every(live := x.numbers != EMPTY):
        source = rows.in_columns(live)
    if y.numbers is not None and not every(relevant := y.numbers != EMPTY):
        target = rows.in_rows(relevant)
    never = None if forward.all_ever else forward.columns(rows, always=False)
    if x.numbers is not None and x.space is not None:
        never = _unread(x.numbers, x.space, rows, backward, never)
    if never is not None:
        missed = rows.in_columns(never)
    if y.numbers is not None and y.space is not None:
        missed = _apart(x, y.numbers, y.space, rows, forward, missed)
    return Ends(source, target, missed)


def _unread(numbers: Numbers, space: Space, rows: Rows, backward: Shifts, never: Bools | None) -> Bools | None:
    """Adds the columns of taps that read nothing of their channel's map."""
    hard = [number for number in set(numbers.tolist()) if number > FULL and not space.maps[number] & backward.core]
    if not hard:
        return never
    unread = np.zeros((len(numbers), rows.taps), bool)
    for number in hard:
        unread[numbers == number] = [not space.maps[number] & backward.covers[tap] for tap in range(rows.taps)]
    if never is not None:
        unread |= never
    return unread if anywhere(unread) else None


def _apart(
    x: Channels, numbers: Numbers, space: Space, rows: Rows, forward: Shifts, missed: Some | None
) -> Some | None:
    """Adds the connections to targets with a map that is apart from what they bring there."""
    with_map = numbers > FULL
    hard = [number for number in set(numbers[with_map].tolist()) if not space.maps[number] & forward.core]
    asked = [(np.isin(numbers, hard), None if x.numbers is None else x.numbers == FULL)] if hard else []
    if x.numbers is not None and x.space is not None:
        asked.append((with_map, x.numbers > FULL))
    for targets, sources in asked:
        row, channel, tap, place = rows.bits(targets, sources)
        number = np.full(len(row), FULL) if x.numbers is None else x.numbers[channel]
        apart = _are_apart(number * rows.taps + tap, numbers[row], x, space, forward)
        if anywhere(apart):
            found = rows.at(place[apart])
            missed = found if missed is None else missed | found
    return missed


def _are_apart(codes: Ints, targets: Numbers, x: Channels, space: Space, forward: Shifts) -> Bools:
    """Does the tap of the code bring nothing of its source's map to the target's?"""
    pairs = list(zip(codes.tolist(), targets.tolist(), strict=True))
    full, covers = FULL * forward.taps, forward.covers
    distinct = set(pairs)
    of_maps = (code for code, _ in distinct if code >= full + forward.taps)
    read = {} if x.space is None else forward.read(of_maps, x.space)
    known = {
        (code, number): not (covers[code - full] if code < full + forward.taps else read[code]) & space.maps[number]
        for code, number in distinct
    }
    return np.array([known[pair] for pair in pairs], bool)
