"""The kernel in numpy: for machines on which its C could not be compiled, and for tests to compare it with.

A weight is [groups, rows, words]: each row has the bits of channels * taps columns. Channels, of a group one after
another, have the numbers of their maps of positions: EMPTY, FULL, or that of a row in a table of maps, whose first two
rows are the empty and the full map. None for numbers stands for all full, None for a table for no other maps.

A function that finds numbers gives back that of all, EMPTY or FULL, if all have the same; or the bytes of the numbers
and those of their table, None if it has no other maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.kernel.bits import Bools, Words, count, unpack, words_of
from effsparse_cli.kernel.bits import pack as packed

EMPTY, FULL = 0, 1
ELSEWHERE = np.iinfo(np.int64).max
PIECE = 1 << 20
"""Elements that are worked on at a time."""

Numbers = NDArray[np.int32]
Places = NDArray[np.intp]
Found = int | tuple[bytes, bytes | None]
Opened = tuple[NDArray[Any], int, bool, Callable[[int, int], object] | None]
"""A matrix of numbers in memory, contiguous; the bytes of each; whether the highest bit does not count, which makes
-0.0 a zero; and what is to be told, if anything, when all between two addresses has been read, of this matrix and
perhaps of others that are to tell the same."""
Tally = tuple[int, int, int, int, int, int]


class Geometry(NamedTuple):
    """What taps read: positions of the input for positions of the output, both row by row and counted with the batch.

    `always` [taps]: does the tap read something for every output position? `covers` [taps, words]: for which ones.
    `distances` [taps]: how far away it reads, or ELSEWHERE if that is not the same for all. Then it is the sum of two
    tables, each -1 where nothing is read: `front` [front taps, lines] has the beginning of a line of the input for each
    line of the output, `last` [last taps, length] the place in it. `steps` [last taps, 5] says the same as `last`:
    first output, step, first input, step, how many; the number is -1 if steps cannot say it. Only then is `last` read;
    if steps say everything, it may hold anything.

    Tables are bytes, which C reads at less cost than arrays: of uint8, int64, uint64 and, three times, int32.
    """

    taps: int
    positions: int
    outputs: int
    lasts: int
    always: bytes
    distances: bytes
    covers: bytes
    front: bytes
    steps: bytes
    last: bytes | NDArray[np.int32]


def spread_steps(steps: NDArray[np.int32], out: int) -> NDArray[np.int32]:
    """[out]: what a tap with regular steps reads, -1 where it reads nothing."""
    to, over, at, by, number = steps.tolist()
    row = np.full(out, -1, np.int32)
    row[to : to + over * number : over] = np.arange(at, at + by * number, by, dtype=np.int32)
    return row


def scan(
    sizes: bytes,
    words: Words,
    order: bytes,
    open_: Callable[[int], Opened],
    helped: bool,
) -> bytes:
    """Matrices of numbers, [rows, columns] in `sizes`, become one bit each in `words`, row by row and one after
    another: is it zero? Each is opened when its turn in `order` comes. Gives back for each matrix how many are not
    zero, and in how many rows none is. `helped`: a second thread may take part."""
    shapes = np.frombuffer(sizes, np.int64).reshape(-1, 2).tolist()
    starts = np.cumsum([0, *(rows * words_of(columns) for rows, columns in shapes)])
    counts = np.zeros((len(shapes), 2), np.int64)
    for k in np.frombuffer(order, np.int32).tolist():
        (rows, columns), (numbers, size, signed, done) = shapes[k], open_(k)
        into = words[starts[k] : starts[k + 1]].reshape(rows, words_of(columns))
        _pack(numbers.view(f"u{size}").reshape(rows, columns), into, signed)
        counts[k] = count(into), rows - int(np.count_nonzero(_any(into)))
        if done is not None:
            done(numbers.ctypes.data, numbers.ctypes.data + numbers.nbytes)
    return counts.tobytes()


def _pack(numbers: NDArray[Any], into: Words, signed: bool) -> None:
    step = max(PIECE // max(numbers.shape[1], 1), 1)
    for start in range(0, len(numbers), step):
        piece = numbers[start : start + step]
        into[start : start + step] = packed(np.asarray((piece + piece if signed else piece) != 0))


def forward(
    words: Words, groups: int, channels: int, x: Numbers | None, maps: Words | None, geometry: Geometry
) -> Found:
    """The map of each row: the union of what it reads of the channels, at the taps that it keeps."""
    always, x = np.frombuffer(geometry.always, bool), _given(x, groups * channels)
    saturating = (x == FULL)[:, None] & always
    rows = words.reshape(-1, words_of(channels * geometry.taps))
    y = _any(words.reshape(groups, -1, rows.shape[1]) & packed(saturating.reshape(groups, 1, -1))).astype(np.int32)
    row, channel, tap = _listed(rows, (y == EMPTY).nonzero()[0], groups, channels, geometry.taps)
    live = x[channel] != EMPTY
    return _settle(row[live], x[channel[live]], tap[live], maps, y, geometry)


def backward(
    words: Words, groups: int, channels: int, y: Numbers | None, maps: Words | None, geometry: Geometry
) -> Found:
    """The map of each channel: the union of what it reads of the rows that keep it. `geometry` leads back."""
    y = _given(y, words.size // max(words_of(channels * geometry.taps), 1))
    grouped = words.reshape(groups, len(y) // groups, -1)
    full = np.where((y == FULL).reshape(groups, -1, 1), grouped, np.uint64(0))
    columns = unpack(np.bitwise_or.reduce(full, axis=1), channels * geometry.taps).reshape(-1, geometry.taps)
    x = (columns & np.frombuffer(geometry.always, bool)).any(axis=1).astype(np.int32)
    channel, tap = (columns & (x == EMPTY)[:, None]).nonzero()
    partial = (y > FULL).nonzero()[0]
    row, other, at = _listed(words.reshape(len(y), -1), partial, groups, channels, geometry.taps)
    left = x[other] == EMPTY
    numbers = np.concatenate([np.full(len(channel), FULL), y[row[left]]])
    return _settle(np.concatenate([channel, other[left]]), numbers, np.concatenate([tap, at[left]]), maps, x, geometry)


def meet(
    words: Words,
    groups: int,
    channels: int,
    x: Numbers | None,
    x_maps: Words | None,
    y: Numbers | None,
    y_maps: Words | None,
    missed: Words,
    geometry: Geometry,
) -> tuple[bytes | None, bytes | None, bool, Tally]:
    """The columns of channels that are not empty, as [groups, words], None if none is empty; the same of rows, as
    [rows] of ones or zeros; whether connections between these bring nothing to any position of the row's map, and those
    marked in `missed`, which has no room where there can be none; and the tally."""
    source = target = None
    if x is not None and (x == EMPTY).any():
        source = packed((x != EMPTY).repeat(geometry.taps).reshape(groups, -1))
    if y is not None and (y == EMPTY).any():
        target = np.where(y != EMPTY, ~np.uint64(0), np.uint64(0))
    some = bool(missed.size) and _miss(words, groups, channels, (x, x_maps), (y, y_maps), missed, geometry)
    width = words_of(channels * geometry.taps)
    counts = tally(words, groups, width, source, target, missed if some else None)
    return None if source is None else source.tobytes(), None if target is None else target.tobytes(), some, counts


def number(maps: Words, count: int, positions: int) -> Found:
    """The numbers of so many maps, [maps, words]."""
    known: dict[bytes, int] = {}
    for row in _table(None, positions):
        known.setdefault(row.tobytes(), len(known))
    numbers = [known.setdefault(row.tobytes(), len(known)) for row in maps.reshape(count, -1)]
    return _found(np.array(numbers, np.int32), b"".join(known) if len(known) > FULL + 1 else None)


def tally(
    words: Words, groups: int, width: int, source: Words | None, target: Words | None, missed: Words | None
) -> Tally:
    """How many connections there are in all, with a source, with a target, with both, with both and not missed; and how
    many rows have none of these last. Sources are [groups, words] or whole, targets [rows] or whole."""
    kept = words.reshape(groups, -1, width) if width else words.reshape(groups, 0, 0)
    every = ~np.uint64(0)
    sources = every if source is None else source.reshape(groups, -1, width)
    if target is None:
        targets: Any = every
    else:
        targets = target.reshape(kept.shape) if target.size == kept.size else target.reshape(*kept.shape[:2], 1)
    both = kept & sources & targets
    active = both if missed is None else both & ~missed.reshape(kept.shape)
    dead = kept.shape[0] * kept.shape[1] - int(np.count_nonzero(_any(active)))
    return count(kept), count(kept & sources), count(kept & targets), count(both), count(active), dead


def transpose(words: Words, turned: Words, rows: int, columns: int) -> None:
    """[rows, words of columns] to [columns, words of rows]."""
    width = words_of(columns)
    step = 64 * max(PIECE // max(64 * columns, 1), 1)
    into = turned.reshape(columns, words_of(rows))
    for start in range(0, rows, step):
        slab = packed(np.ascontiguousarray(unpack(words.reshape(rows, width)[start : start + step], columns).T))
        into[:, start // 64 : start // 64 + slab.shape[1]] = slab


Ends = tuple[Numbers | None, Words | None]


def _miss(words: Words, groups: int, channels: int, from_: Ends, to: Ends, missed: Words, geometry: Geometry) -> bool:
    """Are there connections from channels to rows, neither of them empty, that bring nothing to any position of the
    row's map? Marks them."""
    x = _given(from_[0], groups * channels)
    rows = words.reshape(-1, words_of(channels * geometry.taps))
    y, into = _given(to[0], len(rows)), missed.reshape(-1)
    targets = _table(to[1], geometry.outputs)
    found = False
    for part in _parts((y != EMPTY).nonzero()[0], rows.shape[1]):
        row, channel, tap = _listed(rows, part, groups, channels, geometry.taps)
        live = x[channel] != EMPTY
        row, channel, tap = row[live], channel[live], tap[live]
        codes, which = np.unique(x[channel].astype(np.intp) * geometry.taps + tap, return_inverse=True)
        pairs, of = np.unique(which * len(targets) + y[row], return_inverse=True)
        read = _reads(codes, from_[1], geometry)
        apart = ~(read[pairs // len(targets)] & targets[pairs % len(targets)]).any(axis=1)[of]
        column = (channel[apart] % channels) * geometry.taps + tap[apart]
        word, bit = row[apart] * rows.shape[1] + (column >> 6), np.uint64(1) << (column & 63).astype(np.uint64)
        np.bitwise_or.at(into, word, bit)
        found = found or bool(apart.any())
    return found


def _given(numbers: Numbers | None, size: int) -> Numbers:
    return np.full(size, FULL, np.int32) if numbers is None else numbers


def _table(maps: Words | None, positions: int) -> Words:
    if maps is not None:
        return maps.reshape(-1, words_of(positions))
    return packed(np.repeat([[False], [True]], positions, axis=1))


def _any(words: Words) -> Bools:
    """[..., rows, words] to [rows], through all groups."""
    return np.asarray((words != 0).any(axis=-1)).reshape(-1)


def _parts(rows: Places, width: int) -> Iterator[Places]:
    step = max(PIECE // max(64 * width, 1), 1)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _listed(words: Words, rows: Places, groups: int, channels: int, taps: int) -> tuple[Places, Places, Places]:
    """Row, channel and tap of what is kept in some rows of [rows, words]."""
    parts = []
    for part in _parts(rows, words.shape[1]):
        row, column = unpack(words[part], channels * taps).nonzero()
        row = part[row]
        channel, tap = np.divmod(column, taps)
        parts.append((row, channel + row // (len(words) // groups) * channels, tap))
    if not parts:
        return np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.intp)
    row, channel, tap = (np.concatenate(each) for each in zip(*parts, strict=True))
    return row, channel, tap


def _settle(
    reader: Places, numbers: NDArray[Any], tap: Places, maps: Words | None, into: Numbers, geometry: Geometry
) -> Found:
    """Who is not full yet gets the union of what it reads: map `numbers` at `tap`."""
    codes, which = np.unique(numbers.astype(np.intp) * geometry.taps + tap, return_inverse=True)
    readers, code = np.divmod(np.unique(reader * max(len(codes), 1) + which), max(len(codes), 1))
    table = None
    if len(readers):
        starts = np.flatnonzero(np.diff(readers, prepend=-1))
        unions = np.bitwise_or.reduceat(_reads(codes, maps, geometry)[code], starts, axis=0)
        found = number(unions, len(unions), geometry.outputs)
        if isinstance(found, int):
            into[readers[starts]] = found
        else:
            into[readers[starts]], table = np.frombuffer(found[0], np.int32), found[1]
    return _found(into, table)


def _found(numbers: Numbers, table: bytes | None) -> Found:
    same = not len(numbers) or (numbers[0] <= FULL and bool((numbers == numbers[0]).all()))
    return (int(numbers[0]) if len(numbers) else EMPTY) if same else (numbers.tobytes(), table)


def _reads(codes: Places, maps: Words | None, geometry: Geometry) -> Words:
    """[codes, words]: what taps read of maps, by number * taps + tap."""
    numbers, taps = np.divmod(codes, geometry.taps)
    bools = unpack(_table(maps, geometry.positions), geometry.positions)
    found = np.zeros((len(codes), geometry.outputs), bool)
    fronts = np.frombuffer(geometry.front, np.int32).reshape(geometry.taps // geometry.lasts, -1)
    lasts = np.frombuffer(geometry.last, np.int32).reshape(geometry.lasts, -1)
    steps = np.frombuffer(geometry.steps, np.int32).reshape(geometry.lasts, 5)
    for tap in np.unique(taps):
        front, last = divmod(int(tap), geometry.lasts)
        place = lasts[last] if steps[last, 4] < 0 else spread_steps(steps[last], lasts.shape[1])
        lines, places = fronts[front][:, None], place[None, :]
        source = np.where((lines >= 0) & (places >= 0), lines + places, -1).reshape(-1)
        asked = taps == tap
        found[asked] = bools[numbers[asked]][:, np.maximum(source, 0)] & (source >= 0)
    return packed(found)
