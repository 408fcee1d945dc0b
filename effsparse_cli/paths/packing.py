"""Weights enter as they lie in memory, rows of bits in 64-bit words leave. Memory is read once, so that this costs
about as much as the reading itself; two threads share the large tensors."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import count
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from effsparse_cli import kernel
from effsparse_cli.graph.numbers import Numbers
from effsparse_cli.graph.primitives import Shape, View
from effsparse_cli.kernel.bits import Words, words_of
from effsparse_cli.paths.views import arrange

K = TypeVar("K", bound=Hashable)
Piece = tuple[NDArray[Any], Words, bool, Callable[[], None] | None]

PIECE = 1 << 20
"""Elements that a thread takes at a time."""
LARGE = 1 << 18
"""Elements of a tensor for which a second thread is worth its trouble."""


def pack_all(wanted: Mapping[K, tuple[Numbers, View, Shape]]) -> dict[K, Words]:
    """Tensors, each in the view and the shape in which it is used, the first axis of which has the rows, become
    [rows, words] with zero tail bits. They are read in the order of their places: the small ones, then the large."""
    found = {
        key: np.empty((shape[0], words_of(math.prod(shape[1:]))), np.uint64) for key, (*_, shape) in wanted.items()
    }
    jobs = sorted(((*asked, found[key]) for key, asked in wanted.items()), key=lambda job: job[0].place)
    small = [job for job in jobs if 64 * job[3].size < LARGE]
    large = (piece for job in jobs if 64 * job[3].size >= LARGE for piece in _pieces(*job))
    lock = threading.Lock()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not failed:
                with lock:
                    piece = next(large, None)
                if piece is None:
                    return
                _pack(*piece)
        except BaseException as error:
            failed.append(error)

    other = threading.Thread(target=work, daemon=True) if len(small) < len(jobs) and _processors() > 1 else None
    if other is not None:
        other.start()
    try:
        for stored, view, shape, words in small:
            numbers = _arranged(stored, view, shape)
            _pack(numbers, words, stored.signed or numbers.dtype.kind == "f", stored.done)
    except BaseException as error:
        failed.append(error)
    work()
    if other is not None:
        other.join()
    if failed:
        raise failed[0]
    return found


def _pieces(stored: Numbers, view: View, shape: Shape, words: Words) -> Iterator[Piece]:
    """Some rows of numbers, where their bits go, whether they are signed, and whom to tell that they have been read."""
    numbers = _arranged(stored, view, shape)
    signed = stored.signed or numbers.dtype.kind == "f"
    step = max(PIECE // max(64 * words.shape[1], 1), 1)
    left = count(-(-len(words) // step) - 1, -1)

    def done() -> None:
        if next(left) == 0 and stored.done is not None:
            stored.done()

    for start in range(0, len(words), step):
        yield numbers[start : start + step], words[start : start + step], signed, stored.done and done


def _arranged(stored: Numbers, view: View, shape: Shape) -> NDArray[Any]:
    numbers = stored.read()
    return (
        numbers
        if numbers.shape == shape and view.strides is None and view.index is None
        else arrange(numbers, view, shape, zero=0)
    )


def _pack(numbers: NDArray[Any], words: Words, signed: bool, done: Callable[[], None] | None) -> None:
    if numbers.dtype.kind not in "biuf" or numbers.itemsize > 8 or not numbers.dtype.isnative:
        numbers, signed = np.asarray(numbers != 0), False
    kernel.pack(np.ascontiguousarray(numbers), words, len(words), numbers.itemsize, signed)
    if done is not None:
        done()


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
