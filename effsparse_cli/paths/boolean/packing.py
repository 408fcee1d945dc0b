"""Stored weights to packed weights: each tensor is read once, as it is stored, and becomes one bit per weight. That
costs about as much as reading the memory, which the threads of all cores share."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from effsparse_cli import kernel
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import Shape, View, Weight
from effsparse_cli.graph.stored_numbers import FiniteCheck, StoredNumbers
from effsparse_cli.kernel.bits import Words, words_of
from effsparse_cli.kernel.structures import Packed
from effsparse_cli.paths.views import arrange
from effsparse_cli.progress import step

PIECE = 1 << 22
"""Elements that a thread packs at a time."""
LARGE, MANY = 1 << 19, 1 << 22
"""Elements of a tensor that threads share, and of all such tensors from which on more than one thread is worth it."""


class KeptRows(NamedTuple):
    """What a tensor keeps: [rows, words] with zero tail bits, the number of connections, and of rows without any."""

    words: Words
    kept: int
    empty_rows: int


class PackedWeights:
    """All weights that operators use, read when this is built. A tensor that is used twice alike is read once, and a
    matrix that is used transposed is read as it is stored."""

    def __init__(self, shapes: Mapping[Weight, Shape], layers: Mapping[str, Layer]) -> None:
        self._tensors: dict[Weight, _Tensor] = {}
        self._transposed: dict[Weight, Words | None] = {}
        tensors: dict[object, _Tensor] = {}
        for weight, shape in shapes.items():
            view = weight.view
            if _is_transposed(view, shape, layers[weight.layer]):
                self._transposed[weight] = None
                view, shape = View(), shape[::-1]
            key = weight.layer, shape, view.offset, view.strides, None if view.index is None else id(view.index)
            if key not in tensors:
                tensors[key] = _Tensor(layers[weight.layer], view, shape)
            self._tensors[weight] = tensors[key]
        # One allocation gets huge pages, which are faster to write to for the first time.
        buffer, start = np.empty(sum(tensor.width * tensor.shape[0] for tensor in tensors.values()), np.uint64), 0
        for tensor in tensors.values():
            end = start + tensor.width * tensor.shape[0]
            tensor.words, start = buffer[start:end].reshape(tensor.shape[0], tensor.width), end
        _pack_all(sorted(tensors.values(), key=lambda tensor: tensor.stored.position))
        _report_largest(tensors.values())

    def stored(self, weight: Weight) -> KeptRows:
        """The kept connections, in the stored layout."""
        tensor = self._tensors[weight]
        return KeptRows(tensor.words, tensor.kept, tensor.empty_rows)

    def is_transposed(self, weight: Weight) -> bool:
        """Whether the operator uses the transpose of the stored matrix."""
        return weight in self._transposed

    def rows(self, weight: Weight) -> Words:
        """[rows, words] of a weight, in the shape in which its operator uses it."""
        tensor = self._tensors[weight]
        if weight not in self._transposed:
            return tensor.words
        transposed = self._transposed[weight]
        if transposed is None:
            rows, columns = tensor.shape
            transposed = np.empty((columns, words_of(rows)), np.uint64)
            kernel.transpose(tensor.words, transposed, rows, columns)
            self._transposed[weight] = transposed
        return transposed


def _is_transposed(view: View, shape: Shape, layer: Layer) -> bool:
    if view.strides is None or len(shape) != 2 or view.strides != (1, shape[0]):
        return False
    return view.offset == 0 and math.prod(shape) == math.prod(layer.shape)


class _Tensor:
    """A tensor in a view and a shape, the first axis of which has the rows, and what was found in it."""

    def __init__(self, layer: Layer, view: View, shape: Shape) -> None:
        self.stored = layer.kept if isinstance(layer.kept, StoredNumbers) else StoredNumbers(layer.kept, ())
        self._view, self.shape = view, shape
        self.columns = math.prod(shape[1:])
        self.size = shape[0] * self.columns
        self.bytes = self.size * max(layer.itemsize, 1)
        self.width = words_of(self.columns)
        self.words: Words
        self.kept = self.empty_rows = self.largest = 0
        self.span = _find_span(view, shape)

    def pieces(self, step: int) -> Iterator[Callable[[], Packed]]:
        """Return one call for each `step` rows. Memory-mapped pages are released after they were read."""
        own = numbers = self.stored.read()
        ignore_sign = self.stored.signed
        if numbers.shape != self.shape or self._view.strides is not None or self._view.index is not None:
            numbers = arrange(numbers, self._view, self.shape, zero=0)
        if numbers.dtype.kind not in "biuf" or numbers.itemsize > 8 or not numbers.dtype.isnative:
            numbers, ignore_sign, self.span = np.asarray(numbers != 0), False, None
        ignore_sign |= numbers.dtype.kind == "f"
        numbers = np.ascontiguousarray(numbers)
        mapped = numbers is own or np.may_share_memory(numbers, own)
        if not mapped:
            self.stored.notify_read(own)
        for start in range(0, self.shape[0], step):
            rows = slice(start, start + step)
            yield lambda rows=rows: self._pack(numbers[rows], self.words[rows], ignore_sign, mapped)  # type: ignore[misc]

    def _pack(self, numbers: NDArray[Any], words: Words, ignore_sign: bool, mapped: bool) -> Packed:
        packed = kernel.pack(numbers, words, len(words), numbers.itemsize, ignore_sign)
        if mapped:
            self.stored.notify_read(numbers)
        return packed

    def add(self, packed: Packed) -> None:
        self.kept += packed.kept
        self.empty_rows += packed.empty_rows
        self.largest = max(self.largest, packed.largest)


def _find_span(view: View, shape: Shape) -> tuple[int, int] | None:
    """Return the first and last element that a contiguous view reads."""
    size = math.prod(shape)
    if view.index is not None:
        return None
    if view.strides is None:
        return 0, size
    contiguous = view.strides == tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return (view.offset, view.offset + size) if contiguous else None


def _report_largest(tensors: Iterable[_Tensor]) -> None:
    """Report the largest bit pattern of each stored tensor of which every element was read."""
    parts: dict[FiniteCheck, list[_Tensor]] = {}
    for tensor in tensors:
        if tensor.stored.finite is not None:
            parts.setdefault(tensor.stored.finite, []).append(tensor)
    for finite, read in parts.items():
        end = 0
        for first, last in sorted(tensor.span for tensor in read if tensor.span is not None):
            end = max(end, last) if first <= end else end
        if end >= math.prod(read[0].stored.shape):
            finite.set_largest(max(tensor.largest for tensor in read))


def _pack_all(tensors: list[_Tensor]) -> None:
    """Pack all tensors. This thread reads every one of them, because readers may not be safe for threads, and packs as
    well; the others pack pieces of large tensors."""
    helpers = _processors() - 1 if sum(tensor.size for tensor in tensors if tensor.size >= LARGE) >= MANY else 0
    if not helpers:
        for tensor in tensors:
            for pack in tensor.pieces(max(tensor.shape[0], 1)):
                tensor.add(pack())
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    packed: list[tuple[_Tensor, Future[Packed]]] = []
    unfinished: list[Future[Packed]] = []
    size = sum(tensor.bytes for tensor in tensors)
    with step("reading weights", size, in_bytes=True) as advance, ThreadPoolExecutor(helpers) as pool:
        for tensor in tensors:
            for pack in tensor.pieces(max(PIECE // max(tensor.columns, 1), 1)):
                unfinished = [future for future in unfinished if not future.done()]
                if tensor.size >= LARGE and len(unfinished) < 2 * helpers:
                    unfinished.append(pool.submit(pack))
                    packed.append((tensor, unfinished[-1]))
                else:
                    tensor.add(pack())
            advance(tensor.bytes)
        for tensor, future in packed:
            tensor.add(future.result())


@cache
def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
