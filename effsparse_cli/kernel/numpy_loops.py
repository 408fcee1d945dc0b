"""The loops of the kernel in numpy: the specification of the C code, and its replacement where that could not be
compiled. See `structures` for the arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.kernel.bits import Bools, Words, count, unpack, words_of
from effsparse_cli.kernel.bits import pack as pack_bools
from effsparse_cli.kernel.structures import EMPTY, FULL, Geometry, MapNumbers, NumberedMaps, Packed

PIECE = 1 << 20
"""Elements that are worked on at a time."""

Bytes = NDArray[Any]
"""A contiguous array, of which only the memory matters."""
Places = NDArray[np.intp]


def pack(numbers: Bytes, words: Words, rows: int, item_size: int, ignore_sign: bool) -> Packed:
    """Set one bit for each number that is not zero, in [rows, words]. Without its sign, -0.0 is zero."""
    flat = numbers.reshape(-1).view(f"u{item_size}")
    if words.size != rows * words_of(flat.size // max(rows, 1)):
        raise ValueError("a weight does not have the size of its shape")
    if not rows:
        return Packed(0, 0, 0)
    matrix, into, largest = flat.reshape(rows, -1), words.reshape(rows, -1), 0
    step = max(PIECE // max(matrix.shape[1], 1), 1)
    for start in range(0, rows, step):
        piece = matrix[start : start + step]
        piece = piece & np.array((1 << 8 * item_size - 1) - 1, piece.dtype) if ignore_sign else piece
        into[start : start + step] = pack_bools(np.asarray(piece != 0))
        largest = max(largest, int(piece.max(initial=0)))
    return Packed(count(into), rows - int(np.count_nonzero(_any_bit(into))), largest)


def forward(
    words: Words, groups: int, channels: int, x: MapNumbers | None, maps: Words | None, geometry: Geometry
) -> NumberedMaps:
    """Return the map of each row: the union of what it reads of the channels, at the taps that it keeps."""
    always, x = np.frombuffer(geometry.always, bool), _or_full(x, groups * channels)
    saturating = (x == FULL)[:, None] & always
    rows = words.reshape(-1, words_of(channels * geometry.taps))
    full = words.reshape(groups, -1, rows.shape[1]) & pack_bools(saturating.reshape(groups, 1, -1))
    y = _any_bit(full).astype(np.int32)
    row, channel, tap = _list_kept(rows, (y == EMPTY).nonzero()[0], groups, channels, geometry.taps)
    live = x[channel] != EMPTY
    return _unite(row[live], x[channel[live]], tap[live], maps, y, geometry)


def backward(
    words: Words, groups: int, channels: int, y: MapNumbers | None, maps: Words | None, geometry: Geometry
) -> NumberedMaps:
    """Return the map of each channel: the union of what it reads of the rows that keep it. `geometry` is that of the
    adjoint."""
    y = _or_full(y, words.size // max(words_of(channels * geometry.taps), 1))
    grouped = words.reshape(groups, len(y) // groups, -1)
    full = np.where((y == FULL).reshape(groups, -1, 1), grouped, np.uint64(0))
    columns = unpack(np.bitwise_or.reduce(full, axis=1), channels * geometry.taps).reshape(-1, geometry.taps)
    x = (columns & np.frombuffer(geometry.always, bool)).any(axis=1).astype(np.int32)
    channel, tap = (columns & (x == EMPTY)[:, None]).nonzero()
    partial = (y > FULL).nonzero()[0]
    row, other, at = _list_kept(words.reshape(len(y), -1), partial, groups, channels, geometry.taps)
    left = x[other] == EMPTY
    numbers = np.concatenate([np.full(len(channel), FULL), y[row[left]]])
    return _unite(np.concatenate([channel, other[left]]), numbers, np.concatenate([tap, at[left]]), maps, x, geometry)


class Meeting(NamedTuple):
    """Where paths from the input meet paths from the output: the columns of channels that are not empty, [groups,
    words], and rows that are not empty, [rows] of ones or zeros, each None if none is empty; whether any connection
    between these was marked as missed; and the counts."""

    source: bytes | None
    target: bytes | None
    has_missed: bool
    tally: Tally


def meet(
    words: Words,
    groups: int,
    channels: int,
    x: MapNumbers | None,
    x_maps: Words | None,
    y: MapNumbers | None,
    y_maps: Words | None,
    missed: Words,
    geometry: Geometry,
) -> Meeting:
    """Find the connections between channels and rows that are not empty, and count. Those that bring nothing to any
    position of the row's map are marked in `missed`, which has no elements where there can be none."""
    source = target = None
    if x is not None and (x == EMPTY).any():
        source = pack_bools((x != EMPTY).repeat(geometry.taps).reshape(groups, -1))
    if y is not None and (y == EMPTY).any():
        target = np.where(y != EMPTY, ~np.uint64(0), np.uint64(0))
    some = bool(missed.size) and _find_missed(words, groups, channels, (x, x_maps), (y, y_maps), missed, geometry)
    width = words_of(channels * geometry.taps)
    counts = tally(words, groups, width, source, target, missed if some else None)
    return Meeting(
        None if source is None else source.tobytes(), None if target is None else target.tobytes(), some, counts
    )


def number(maps: Words, count: int, positions: int) -> NumberedMaps:
    """Return the numbers of `count` maps, [maps, words]."""
    known: dict[bytes, int] = {}
    for row in _table(None, positions):
        known.setdefault(row.tobytes(), len(known))
    numbers = [known.setdefault(row.tobytes(), len(known)) for row in maps.reshape(count, -1)]
    return _numbered(np.array(numbers, np.int32), b"".join(known) if len(known) > FULL + 1 else None)


class Tally(NamedTuple):
    """Numbers of connections: kept, with a live source, with a relevant target, with both, and active; and of rows
    without an active one."""

    kept: int
    with_source: int
    with_target: int
    with_both: int
    active: int
    dead_rows: int

    @classmethod
    def all_or_none(cls, kept: int, *, source: bool, target: bool, dead_rows: int) -> Tally:
        """Return the counts if every connection has a source or none has, and likewise a target."""
        both = kept * (source and target)
        return cls(kept, kept * source, kept * target, both, active=both, dead_rows=dead_rows)


def tally(
    words: Words, groups: int, width: int, source: Words | None, target: Words | None, missed: Words | None
) -> Tally:
    """Count connections by their ends. `source` is [groups, words] or of the shape of `words`, `target` [rows] or of
    the shape of `words`."""
    kept = words.reshape(groups, -1, width) if width else words.reshape(groups, 0, 0)
    every = ~np.uint64(0)
    sources = every if source is None else source.reshape(groups, -1, width)
    if target is None:
        targets: Any = every
    else:
        targets = target.reshape(kept.shape) if target.size == kept.size else target.reshape(*kept.shape[:2], 1)
    both = kept & sources & targets
    active = both if missed is None else both & ~missed.reshape(kept.shape)
    return Tally(
        kept=count(kept),
        with_source=count(kept & sources),
        with_target=count(kept & targets),
        with_both=count(both),
        active=count(active),
        dead_rows=kept.shape[0] * kept.shape[1] - int(np.count_nonzero(_any_bit(active))),
    )


def transpose(words: Words, transposed: Words, rows: int, columns: int) -> None:
    """Turn [rows, words of columns] into [columns, words of rows]."""
    width = words_of(columns)
    step = 64 * max(PIECE // max(64 * columns, 1), 1)
    into = transposed.reshape(columns, words_of(rows))
    for start in range(0, rows, step):
        slab = pack_bools(np.ascontiguousarray(unpack(words.reshape(rows, width)[start : start + step], columns).T))
        into[:, start // 64 : start // 64 + slab.shape[1]] = slab


Ends = tuple[MapNumbers | None, Words | None]


def _find_missed(
    words: Words, groups: int, channels: int, source: Ends, target: Ends, missed: Words, geometry: Geometry
) -> bool:
    x = _or_full(source[0], groups * channels)
    rows = words.reshape(-1, words_of(channels * geometry.taps))
    y, into = _or_full(target[0], len(rows)), missed.reshape(-1)
    targets = _table(target[1], geometry.outputs)
    found = False
    for part in _split((y != EMPTY).nonzero()[0], rows.shape[1]):
        row, channel, tap = _list_kept(rows, part, groups, channels, geometry.taps)
        live = x[channel] != EMPTY
        row, channel, tap = row[live], channel[live], tap[live]
        codes, which = np.unique(x[channel].astype(np.intp) * geometry.taps + tap, return_inverse=True)
        pairs, of = np.unique(which * len(targets) + y[row], return_inverse=True)
        read = _read_taps(codes, source[1], geometry)
        apart = ~(read[pairs // len(targets)] & targets[pairs % len(targets)]).any(axis=1)[of]
        column = (channel[apart] % channels) * geometry.taps + tap[apart]
        word, bit = row[apart] * rows.shape[1] + (column >> 6), np.uint64(1) << (column & 63).astype(np.uint64)
        np.bitwise_or.at(into, word, bit)
        found = found or bool(apart.any())
    return found


def _or_full(numbers: MapNumbers | None, size: int) -> MapNumbers:
    return np.full(size, FULL, np.int32) if numbers is None else numbers


def _table(maps: Words | None, positions: int) -> Words:
    if maps is not None:
        return maps.reshape(-1, words_of(positions))
    return pack_bools(np.repeat([[False], [True]], positions, axis=1))


def _any_bit(words: Words) -> Bools:
    """[..., rows, words] to [rows], through all groups."""
    return np.asarray((words != 0).any(axis=-1)).reshape(-1)


def _split(rows: Places, width: int) -> Iterator[Places]:
    step = max(PIECE // max(64 * width, 1), 1)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _list_kept(words: Words, rows: Places, groups: int, channels: int, taps: int) -> tuple[Places, Places, Places]:
    """Return row, channel and tap of every connection that some rows of [rows, words] keep."""
    parts = []
    for part in _split(rows, words.shape[1]):
        row, column = unpack(words[part], channels * taps).nonzero()
        row = part[row]
        channel, tap = np.divmod(column, taps)
        parts.append((row, channel + row // (len(words) // groups) * channels, tap))
    if not parts:
        return np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.intp)
    row, channel, tap = (np.concatenate(each) for each in zip(*parts, strict=True))
    return row, channel, tap


def _unite(
    reader: Places, numbers: NDArray[Any], tap: Places, maps: Words | None, into: MapNumbers, geometry: Geometry
) -> NumberedMaps:
    """Give each reader the union of the maps `numbers` at `tap`; the others keep their numbers."""
    codes, which = np.unique(numbers.astype(np.intp) * geometry.taps + tap, return_inverse=True)
    readers, code = np.divmod(np.unique(reader * max(len(codes), 1) + which), max(len(codes), 1))
    table = None
    if len(readers):
        starts = np.flatnonzero(np.diff(readers, prepend=-1))
        unions = np.bitwise_or.reduceat(_read_taps(codes, maps, geometry)[code], starts, axis=0)
        found = number(unions, len(unions), geometry.outputs)
        if isinstance(found, int):
            into[readers[starts]] = found
        else:
            into[readers[starts]], table = np.frombuffer(found[0], np.int32), found[1]
    return _numbered(into, table)


def _numbered(numbers: MapNumbers, table: bytes | None) -> NumberedMaps:
    same = not len(numbers) or (numbers[0] <= FULL and bool((numbers == numbers[0]).all()))
    return (int(numbers[0]) if len(numbers) else EMPTY) if same else (numbers.tobytes(), table)


def _read_taps(codes: Places, maps: Words | None, geometry: Geometry) -> Words:
    """Return what taps read of maps, [codes, words]; a code is number * taps + tap."""
    numbers, taps = np.divmod(codes, geometry.taps)
    bools = unpack(_table(maps, geometry.positions), geometry.positions)
    found = np.zeros((len(codes), geometry.outputs), bool)
    fronts = np.frombuffer(geometry.front, np.int32).reshape(geometry.taps // geometry.last_taps, -1)
    shape = geometry.last_taps if geometry.last else 0, geometry.line_length
    last = np.frombuffer(geometry.last, np.int32).reshape(shape)
    steps = np.frombuffer(geometry.steps, np.int32).reshape(geometry.last_taps, 5)
    for tap in np.unique(taps):
        front, end = divmod(int(tap), geometry.last_taps)
        place = last[end] if steps[end, 4] < 0 else positions_of_steps(steps[end], geometry.line_length)
        lines, places = fronts[front][:, None], place[None, :]
        source = np.where((lines >= 0) & (places >= 0), lines + places, -1).reshape(-1)
        selected = taps == tap
        found[selected] = bools[numbers[selected]][:, np.maximum(source, 0)] & (source >= 0)
    return pack_bools(found)


def positions_of_steps(steps: NDArray[np.int32], length: int) -> NDArray[np.int32]:
    """Return the input position that a tap with regular steps reads for each of `length` outputs, or -1."""
    to, over, at, by, number = steps.tolist()
    row = np.full(length, -1, np.int32)
    row[to : to + over * number : over] = np.arange(at, at + by * number, by, dtype=np.int32)
    return row
