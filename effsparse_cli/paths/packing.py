"""Weights enter as they lie in memory, rows of bits in 64-bit words leave: which tensors are read in what form, and
where in one buffer their bits lie. The kernel reads memory once, so that this costs about as much as the reading."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from effsparse_cli import kernel
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Shape, View, Weight
from effsparse_cli.graph.stored_numbers import StoredNumbers
from effsparse_cli.kernel.bits import Words, words_of
from effsparse_cli.kernel.plain import Opened
from effsparse_cli.paths.views import arrange

MANY = 1 << 22
"""Connections from which on a second thread is worth its start."""


class Kept(NamedTuple):
    """What a weight keeps: [rows, words] with zero tail bits, how many connections, and how many rows keep none."""

    words: Words
    number: int
    empty: int


class Sheet(NamedTuple):
    """A tensor as it is read: the layer that it belongs to, its view, and its shape, the first axis of which has the
    rows; and where its words begin."""

    layer: str
    view: View
    shape: Shape
    start: int

    @property
    def columns(self) -> int:
        return math.prod(self.shape[1:])


@dataclass(frozen=True, eq=False)
class Sheets:
    """All tensors that operators use, and which of them each weight is; what is used twice alike is read once. A matrix
    that is stored by columns is read as it is stored, and then `turned`. `spare` is the memory of the last reading."""

    all: tuple[Sheet, ...]
    of: Mapping[Weight, int]
    turned: frozenset[Weight]
    words: int
    spare: list[Words] = field(default_factory=list, repr=False)

    @cached_property
    def sizes(self) -> bytes:
        """[sheets, rows and columns]."""
        return np.array([(sheet.shape[0], sheet.columns) for sheet in self.all], np.int64).tobytes()

    def room(self, words: int) -> Words:
        """For so many words. What one reading has left the next one takes: new memory costs about as much as reading a
        tenth of the weights."""
        try:
            own = [self.spare.pop()]
        except IndexError:
            own = []
        # The list and the call refer to it; whoever still looks at it, or at a part of it, does too.
        if not own or own[0].size != words or sys.getrefcount(own[0]) > 2:
            own = [np.empty(words, np.uint64)]
        self.spare[:] = own
        return own[0]

    def order(self, layers: Mapping[str, Layer], late: Container[int] = ()) -> bytes:
        """The numbers of all, in the order of their places in a file; or else in that in which operators use them, at
        first only as much of the `late` ones as it takes to know their columns, and the rest of these behind all."""
        numbers = range(len(self.all))
        places = [getattr(layers[sheet.layer].kept, "position", 0) for sheet in self.all]
        used = [~k if k in late else k for k in numbers] + [k for k in numbers if k in late]
        return np.array(sorted(numbers, key=places.__getitem__) if any(places) else used, np.int32).tobytes()


def lay_out(shapes: Mapping[Weight, Shape], layers: Mapping[str, Layer]) -> Sheets:
    """For weights in the shapes in which operators use them."""
    sheets: dict[object, tuple[int, Sheet]] = {}
    of, turned, words = {}, set(), 0
    for weight, shape in shapes.items():
        view = weight.view
        if _by_columns(view, shape, layers[weight.layer]):
            turned.add(weight)
            view, shape = View(), shape[::-1]
        key = weight.layer, shape, view.offset, view.strides, None if view.index is None else id(view.index)
        if key not in sheets:
            sheets[key] = len(sheets), Sheet(weight.layer, view, shape, words)
            words += shape[0] * words_of(sheets[key][1].columns)
        of[weight] = sheets[key][0]
    return Sheets(tuple(sheet for _, sheet in sheets.values()), of, frozenset(turned), words)


def _by_columns(view: View, shape: Shape, layer: Layer) -> bool:
    if view.strides is None or len(shape) != 2 or view.strides != (1, shape[0]):
        return False
    return view.offset == 0 and math.prod(shape) == math.prod(layer.shape)


class Tight(NamedTuple):
    """How many words there are in all; where in them each sheet begins, as int64, or -1 for one that leaves out words
    that are zero; and what puts these in again, from the words of all, for a sheet, into a new array."""

    words: int
    starts: bytes
    loosen: Callable[[Words, int, Words], None]


class Reading:
    """One reading of all sheets. The kernel opens each shortly before it is due; `counts` has for each the connections
    that it keeps, and its empty rows. `tight` says how words that are zero are left out."""

    def __init__(self, sheets: Sheets, layers: Mapping[str, Layer], tight: Tight | None = None) -> None:
        self.sheets = sheets
        self.words = sheets.room(sheets.words if tight is None else tight.words)
        self.tight = tight
        self.counts: memoryview
        self.helped = 64 * sheets.words >= MANY and _processors() > 1
        self._layers = layers
        self._rows: dict[Weight, Words] = {}

    def open(self, number: int) -> Opened:
        """What had to be copied has been read, and is told at once."""
        layer, view, shape, _ = self.sheets.all[number]
        kept = self._layers[layer].kept
        stored = kept if isinstance(kept, StoredNumbers) else StoredNumbers(kept, ())
        own = numbers = stored.read()
        signed = stored.signed
        if numbers.shape != shape or view.strides is not None or view.index is not None:
            numbers = arrange(numbers, view, shape, zero=0)
        if numbers.dtype.kind not in "biuf" or numbers.itemsize > 8 or not numbers.dtype.isnative:
            numbers, signed = np.asarray(numbers != 0), False
        numbers, done = np.ascontiguousarray(numbers), stored.on_read
        if numbers is not own and not np.may_share_memory(numbers, own):
            stored.notify_read(own)
            done = None
        return numbers, numbers.itemsize, signed or numbers.dtype.kind == "f", done

    def read(self) -> None:
        """All of them, now."""
        order = self.sheets.order(self._layers)
        self.counts = memoryview(kernel.scan(self.sheets.sizes, self.words, order, self.open, self.helped)).cast("q")

    def rows(self, weight: Weight) -> Words:
        """[rows, words] of a weight that was read."""
        found = self._rows.get(weight)
        if found is None:
            number = self.sheets.of[weight]
            sheet = self.sheets.all[number]
            rows, width = sheet.shape[0], words_of(sheet.columns)
            start = sheet.start if self.tight is None else int(np.frombuffer(self.tight.starts, np.int64)[number])
            if self.tight is not None and start < 0:
                found = np.empty((rows, width), np.uint64)
                self.tight.loosen(self.words, number, found)
            else:
                found = self.words[start : start + rows * width].reshape(rows, width)
            if weight in self.sheets.turned:
                turned = np.empty((sheet.columns, words_of(rows)), np.uint64)
                kernel.transpose(found, turned, rows, sheet.columns)
                found = turned
            self._rows[weight] = found
        return found

    def kept(self, weight: Weight) -> Kept:
        """The same with its counts, after everything was read."""
        return Kept(self.rows(weight), *self.counted(weight))

    def counted(self, weight: Weight) -> tuple[int, int]:
        """How many connections it keeps, and how many of its rows keep none."""
        number = self.sheets.of[weight]
        kept, empty = self.counts[2 * number : 2 * number + 2].tolist()
        if weight in self.sheets.turned:
            rows = self.rows(weight)
            empty = len(rows) - int(np.count_nonzero(rows.any(axis=1)))
        return kept, empty


def read_all(shapes: Mapping[Weight, Shape], layers: Mapping[str, Layer]) -> Reading:
    reading = Reading(lay_out(shapes, layers), layers)
    reading.read()
    return reading


@cache
def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
