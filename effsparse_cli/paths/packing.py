"""Weights enter as they lie in memory, rows of bits in 64-bit words leave. Memory is read once, so that this costs
about as much as the reading itself; two threads share the large tensors."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from effsparse_cli import kernel
from effsparse_cli.graph.numbers import Numbers
from effsparse_cli.graph.primitives import Shape, View
from effsparse_cli.kernel.bits import Words, words_of
from effsparse_cli.paths.views import arrange

K = TypeVar("K", bound=Hashable)

PIECE = 1 << 20
"""Elements that a thread takes at a time."""
LARGE, MANY = 1 << 19, 1 << 22
"""Elements of a tensor that threads share, and of all such tensors together, from which on a second one is worth its
start."""


class Kept(NamedTuple):
    """What a weight keeps: [rows, words] with zero tail bits, how many connections, and how many rows keep none."""

    words: Words
    number: int
    empty: int


def pack_all(wanted: Mapping[K, tuple[Numbers, View, Shape]]) -> dict[K, Kept]:
    """Tensors, each in the view and the shape in which it is used, the first axis of which has the rows, are read in
    the order of their places: the small ones, then the large."""
    jobs = {key: _Job(*asked) for key, asked in wanted.items()}
    ordered = sorted(jobs.values(), key=lambda job: job.stored.place)
    large = [job for job in ordered if job.size >= LARGE]
    pieces = (piece for job in large for piece in job.pieces(PIECE))
    lock = threading.Lock()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not failed:
                with lock:
                    piece = next(pieces, None)
                if piece is None:
                    return
                piece[0].pack(*piece[1:])
        except BaseException as error:
            failed.append(error)

    many = sum(job.size for job in large) >= MANY
    other = threading.Thread(target=work, daemon=True) if many and _processors() > 1 else None
    if other is not None:
        other.start()
    try:
        for job in ordered:
            if job.size < LARGE:
                job.pack(job.read(), job.words)
    except BaseException as error:
        failed.append(error)
    work()
    if other is not None:
        other.join()
    if failed:
        raise failed[0]
    return {key: job.kept() for key, job in jobs.items()}


class _Job:
    """One tensor."""

    def __init__(self, stored: Numbers, view: View, shape: Shape) -> None:
        self.stored, self._view, self._shape = stored, view, shape
        self.words = np.empty((shape[0], words_of(math.prod(shape[1:]))), np.uint64)
        self.size = 64 * self.words.size
        self._counts: list[tuple[int, int]] = []
        self._pieces = 1

    def read(self) -> NDArray[Any]:
        numbers = self.stored.read()
        if numbers.shape == self._shape and self._view.strides is None and self._view.index is None:
            return numbers
        return arrange(numbers, self._view, self._shape, zero=0)

    def pieces(self, most: int) -> Iterator[tuple[_Job, NDArray[Any], Words]]:
        """Some rows of numbers, and where their bits go."""
        numbers, words = self.read(), self.words
        step = max(most // max(64 * words.shape[1], 1), 1)
        self._pieces = -(-len(words) // step)
        for start in range(0, len(words), step):
            yield self, numbers[start : start + step], words[start : start + step]

    def pack(self, numbers: NDArray[Any], words: Words) -> None:
        signed = self.stored.signed or numbers.dtype.kind == "f"
        if numbers.dtype.kind not in "biuf" or numbers.itemsize > 8 or not numbers.dtype.isnative:
            numbers, signed = np.asarray(numbers != 0), False
        numbers = np.ascontiguousarray(numbers)
        self._counts.append(kernel.pack(numbers, words, len(words), numbers.itemsize, signed))
        if self.stored.done is not None and len(self._counts) == self._pieces:
            self.stored.done()

    def kept(self) -> Kept:
        return Kept(self.words, sum([number for number, _ in self._counts]), sum([empty for _, empty in self._counts]))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
