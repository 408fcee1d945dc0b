"""A weight as rows of bits, and the questions that contractions ask of it: which rows, columns and single connections
hold anything of what is asked for.

Whole words answer where much is kept, the first of them for nearly all rows; where little is, a list of what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Ints
from effsparse_cli.paths.bits import Words, any_in_rows, at, count, every, fill, or_rows, pack, places, unpack

FEW_ROWS = 96
SPARSE = 256
"""Of as many connections at most one is kept where a list is quicker than words."""

LISTING = 32
"""Words that are asked in the time in which one connection is listed."""
OVERHEAD = 1 << 14
"""Words that are asked in the time of calling numpy for it."""

Some = NDArray[Any]
"""Some of the connections that a weight keeps: words that broadcast to its own, or one truth for each that is listed.
Either way `&`, `|` and `~` are those of sets."""


class Bits(NamedTuple):
    """Kept connections; `place` is where each stands: in the list, if there is one, or else in the words. The places of
    the list itself are those in the words."""

    row: Ints
    channel: Ints
    tap: Ints
    place: Ints


class Reads(NamedTuple):
    """Who reads, at which tap, and the number of what is read there. The same may come several times."""

    reader: Ints
    tap: Ints
    number: Ints


@dataclass(frozen=True, eq=False)
class Rows:
    """words [groups, rows, words]; a row is channels * taps long. Rows and channels are numbered through all groups."""

    words: Words
    channels: int
    taps: int
    kept: int
    listed: Bits | None = None

    # Whole rows, whole columns

    def rows_with(self, columns: Bools | None) -> Bools:
        """Per row: does it keep any of the columns, [channels] or [channels, taps]?"""
        if self.listed is not None:
            found = np.zeros(self.words.shape[0] * self.words.shape[1], bool)
            found[self.listed.row if columns is None else self.listed.row[self._of_columns(columns)]] = True
            return found
        pattern = None if columns is None else self._pattern(columns)
        first = self.words[..., 0]
        found = np.asarray((first if pattern is None else first & pattern[..., 0]) != 0).reshape(-1)
        if self.words.shape[-1] > 1 and not every(found):
            left = (~found).nonzero()[0]
            found[left] = any_in_rows(self._words_of(left, pattern))
        return found

    def columns_of(self, rows: Bools | None) -> Bools:
        """[channels, taps]: is the column kept by any of the rows?"""
        if self.listed is not None:
            found = np.zeros((len(self.words) * self.channels, self.taps), bool)
            _, channel, tap, _ = self.listed
            if rows is not None:
                chosen = rows[self.listed.row]
                channel, tap = channel[chosen], tap[chosen]
            found[channel, tap] = True
            return found
        words = self.words
        if rows is not None:
            words = (
                words[:, rows] if len(words) == 1 else np.where(rows.reshape(len(words), -1, 1), words, np.uint64(0))
            )
        few = or_rows(words[:, :FEW_ROWS])
        found = unpack(few, self.channels * self.taps)
        if words.shape[1] > FEW_ROWS and not every(found):
            found = unpack(few | or_rows(words[:, FEW_ROWS:]), self.channels * self.taps)
        return found.reshape(-1, self.taps)

    def bits(self, rows: Bools, columns: Bools | None) -> Bits:
        """What is kept in some rows and columns, one by one."""
        if self.listed is not None:
            chosen = rows[self.listed.row]
            if columns is not None:
                chosen &= self._of_columns(columns)
            place = chosen.nonzero()[0]
            return Bits(self.listed.row[place], self.listed.channel[place], self.listed.tap[place], place)
        asked, width = rows.nonzero()[0], 64 * self.words.shape[-1]
        which, column = np.divmod(
            places(self._words_of(asked, None if columns is None else self._pattern(columns))), width
        )
        return self.located(asked[which] * width + column)

    def read_by_rows(self, rows: Bools, numbers: Ints | None) -> Reads:
        """What some rows read of channels that have numbers: 0 for those that nobody asks for, None if all have 1."""
        distinct = self._ask(numbers, self.taps)
        if numbers is None or not distinct:
            row, channel, tap, _ = self.bits(rows, None if numbers is None else numbers != 0)
            return Reads(row, tap, np.ones_like(row) if numbers is None else numbers[channel])
        found = []
        for number in distinct:
            for place in range(self.taps):
                columns = np.zeros((len(numbers), self.taps), bool)
                columns[:, place] = numbers == number
                reading = (self.rows_with(columns) & rows).nonzero()[0]
                found.append((reading, np.full(len(reading), place), np.full(len(reading), number)))
        return Reads(*map(np.concatenate, zip(*found, strict=True)))

    def read_by_columns(self, numbers: Ints, columns: Bools) -> Reads:
        """What some channels read of rows that have numbers."""
        distinct = self._ask(numbers, 1)
        if not distinct:
            row, channel, tap, _ = self.bits(numbers != 0, columns)
            return Reads(channel, tap, numbers[row])
        found = []
        for number in distinct:
            channel, tap = (self.columns_of(numbers == number) & columns[:, None]).nonzero()
            found.append((channel, tap, np.full(len(channel), number)))
        return Reads(*map(np.concatenate, zip(*found, strict=True)))

    def _ask(self, numbers: Ints | None, times: int) -> list[int]:
        """The numbers that occur, where whole words answer as many questions sooner than a list of what is kept."""
        if self.listed is not None or numbers is None:
            return []
        distinct = sorted(set(numbers.tolist()) - {0})
        return distinct if len(distinct) * times * (self.words.size + OVERHEAD) < LISTING * self.kept else []

    # Sets of connections

    @property
    def all(self) -> Some:
        return self.words if self.listed is None else np.ones(len(self.listed.row), bool)

    def in_columns(self, columns: Bools) -> Some:
        return self._pattern(columns) if self.listed is None else self._of_columns(columns)

    def in_rows(self, rows: Bools) -> Some:
        return fill(rows.reshape(len(self.words), -1, 1)) if self.listed is None else rows[self.listed.row]

    def at(self, places: Ints) -> Some:
        """The connections in these places."""
        if self.listed is not None:
            found = np.zeros(len(self.listed.row), bool)
            found[places] = True
            return found
        words = np.zeros(self.words.shape, np.uint64)
        word, bit = at(places)
        np.bitwise_or.at(words.reshape(-1), word, bit)
        return words

    def count(self, some: Some) -> int:
        return count(some & self.words) if self.listed is None else int(np.count_nonzero(some))

    def reached(self, some: Some) -> Bools:
        """Per row: is any of these in it?"""
        if self.listed is None:
            return any_in_rows((some & self.words).reshape(self._flat.shape))
        found = np.zeros(self.words.shape[0] * self.words.shape[1], bool)
        found[self.listed.row[some]] = True
        return found

    def as_words(self, some: Some) -> Words:
        """[groups, rows, words]."""
        if self.listed is None:
            return some & self.words
        words = np.zeros(self.words.shape, np.uint64)
        word, bit = at(self.listed.place[some])
        np.bitwise_or.at(words.reshape(-1), word, bit)
        return words

    # Inside

    @property
    def _flat(self) -> Words:
        """[groups * rows, words]."""
        return self.words.reshape(-1, self.words.shape[-1])

    def _pattern(self, columns: Bools) -> Words:
        """[groups, 1, words]."""
        return pack((columns.repeat(self.taps) if columns.ndim == 1 else columns).reshape(len(self.words), 1, -1))

    def _of_columns(self, columns: Bools) -> Bools:
        assert self.listed is not None
        return columns[self.listed.channel] if columns.ndim == 1 else columns[self.listed.channel, self.listed.tap]

    def _words_of(self, rows: Ints, pattern: Words | None) -> Words:
        words = self._flat[rows]
        if pattern is None:
            return words
        of_group: Words = pattern[0] if len(pattern) == 1 else pattern[rows // self.words.shape[1], 0]
        return words & of_group

    def located(self, places: Ints) -> Bits:
        """What stands in these places of the words."""
        row, column = np.divmod(places, 64 * self.words.shape[-1])
        channel, tap = (column, np.zeros_like(column)) if self.taps == 1 else np.divmod(column, self.taps)
        if len(self.words) > 1:
            channel = channel + row // self.words.shape[1] * self.channels
        return Bits(row, channel, tap, places)


class Kept(NamedTuple):
    """What a weight keeps, as [rows, words]: how many connections, and their places in the words if they are few."""

    words: Words
    number: int
    places: Ints | None


def kept_of(words: Words) -> Kept:
    number = count(words)
    return Kept(words, number, places(words) if number * SPARSE <= 64 * words.size else None)


def rows_of(kept: Kept, groups: int, channels: int, taps: int) -> Rows:
    """With a list, where little is kept."""
    words = kept.words.reshape(groups, len(kept.words) // groups, kept.words.shape[-1])
    rows = Rows(words, channels, taps, kept.number)
    return rows if kept.places is None else replace(rows, listed=rows.located(kept.places))
