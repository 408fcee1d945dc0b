"""Stored numbers to one bit each: weights enter as they lie in memory, rows of bits in 64-bit words leave.

A scan reads memory once, in pieces that stay in a processor's cache, so that it costs about as much as the reading
itself; no boolean array of a whole tensor is ever made. Large models are scanned by two threads.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Shape

Words = NDArray[np.uint64]
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

PIECE = 1 << 20
"""Elements that are worked on at a time; with smaller pieces two threads wait for each other more than they gain."""
MANY = 1 << 25
"""From so many elements on, a second thread is worth its start."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Keeps what is not zero: the `kept` of a layer whose own numbers decide, and nothing else does.

    `read` gives the numbers in the layer's order, contiguous; floats that numpy lacks, or compares slowly, as unsigned
    words, `signed` where their highest bit alone is a zero too. `done` is told when they have been read, `place` orders
    tensors as their file holds them.
    """

    read: Callable[[], NDArray[Any]]
    shape: Shape
    signed: bool = False
    place: int = 0
    done: Callable[[], None] | None = None

    def __call__(self) -> Bools:
        """-0.0 is zero, NaN is not."""
        numbers = self.read()
        kept = np.asarray((numbers << 1 if self.signed else numbers) != 0).reshape(self.shape)
        if self.done is not None:
            self.done()
        return kept


Arrange = Callable[[NDArray[Any]], NDArray[Any]]
"""Puts numbers as they are stored into the shape in which they are used, without copying them if it can."""


def scan(wanted: Mapping[K, tuple[Numbers, Arrange, Shape]], finish: Callable[[Words], R]) -> dict[K, R]:
    """Many tensors, each arranged in its shape, the first axis of which has the rows, are read in the order of their
    places; `finish` gets the [rows, words] of each, with zero tail bits, and makes of them what is asked for."""
    jobs = {key: _Job(*asked) for key, asked in wanted.items()}
    many = sum(job.left for job in jobs.values()) >= MANY // 64
    portions, lock = _portions(sorted(jobs.values(), key=lambda job: job.numbers.place), many), threading.Lock()
    results: dict[_Job, R] = {}
    failed: list[BaseException] = []

    def work() -> None:
        buffer = _Buffer()
        try:
            while not failed:
                with lock:
                    portion = next(portions, None)
                if portion is None:
                    return
                for job, numbers, words in portion:
                    _pack(numbers, job.numbers.signed, words, buffer)
                    with lock:
                        last = job.finish(words.size)
                    if last:
                        results[job] = finish(job.words)
        except BaseException as error:
            failed.append(error)

    other = threading.Thread(target=work, daemon=True) if many and _processors() > 1 else None
    if other is not None:
        other.start()
    work()
    if other is not None:
        other.join()
    if failed:
        raise failed[0]
    return {key: results[job] if job in results else finish(job.words) for key, job in jobs.items()}


Piece = tuple["_Job", NDArray[Any], Words]


class _Job:
    """One tensor."""

    def __init__(self, numbers: Numbers, arrange: Arrange, shape: Shape) -> None:
        self.numbers = numbers
        self._arrange = arrange
        self.words = np.empty((shape[0], -(-math.prod(shape[1:]) // 64)), np.uint64)
        self.left = self.words.size

    def pieces(self, most: int) -> Iterator[Piece]:
        numbers, words = self._arrange(self.numbers.read()), self.words
        step = max(most // max(words.shape[1] * 64, 1), 1)
        if numbers.flags.c_contiguous and numbers.size == 64 * words.size:
            # Rows end where words end, so that they need not be told apart.
            numbers, words, step = numbers.reshape(-1, 64), words.reshape(-1, 1), most // 64
        for start in range(0, len(numbers), step):
            yield self, numbers[start : start + step], words[start : start + step]

    def finish(self, words: int) -> bool:
        """Was that the last of it?"""
        self.left -= words
        if not self.left and self.numbers.done is not None:
            self.numbers.done()
        return not self.left


def _portions(jobs: list[_Job], many: bool) -> Iterator[list[Piece]]:
    """Pieces that are done at one go: small ones together. Where signs are removed, which takes memory, pieces are
    smaller, unless that memory is little beside the rest."""
    portion: list[Piece] = []
    size = 0
    for job in jobs:
        for piece in job.pieces(PIECE // 4 if job.numbers.signed and not many else PIECE):
            portion.append(piece)
            size += piece[1].size
            if size >= PIECE // 2:
                yield portion
                portion, size = [], 0
    if portion:
        yield portion


class _Buffer:
    """One thread's own memory, used again and again."""

    def __init__(self) -> None:
        self._bools = np.empty(0, bool)
        self._shifted = np.empty(0, np.uint8)

    def bools(self, size: int) -> Bools:
        if len(self._bools) < size:
            self._bools = np.empty(size, bool)
        return self._bools[:size]

    def shifted(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Without the sign."""
        if len(self._shifted) < numbers.nbytes:
            self._shifted = np.empty(numbers.nbytes, np.uint8)
        out = self._shifted[: numbers.nbytes].view(numbers.dtype).reshape(numbers.shape)
        shifted: NDArray[Any] = np.add(numbers, numbers, out=out)  # half the time of a shift
        return shifted


def _pack(numbers: NDArray[Any], signed: bool, words: Words, buffer: _Buffer) -> None:
    """[rows, ...] to [rows, words]."""
    columns, width = math.prod(numbers.shape[1:]), 64 * words.shape[1]
    numbers = buffer.shifted(numbers) if signed else numbers
    packed = words.view(np.uint8)
    if columns % 8:
        bools = buffer.bools(width * len(words)).reshape(len(words), width)
        np.not_equal(numbers.reshape(len(words), columns), 0, out=bools[:, :columns])
        bools[:, columns:] = False
        packed[:] = np.packbits(bools).reshape(packed.shape)
        return
    bools = buffer.bools(numbers.size)
    np.not_equal(numbers, 0, out=bools.reshape(numbers.shape))
    packed[:, : columns // 8] = np.packbits(bools).reshape(len(words), columns // 8)
    packed[:, columns // 8 :] = 0


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
