"""Stored weights that are their own mask: what is not zero is kept. Packing also finds out if all are finite."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.formatting import plural
from effsparse_cli.graph.primitives import Bools, Shape

FIRST_NONFINITE = {"float16": 0x7C00, "float32": 0x7F800000, "float64": 0x7FF0000000000000}
"""The bit pattern of infinity. Those of NaN, without the sign, are larger."""


class FiniteCheck:
    """Whether all numbers of a tensor are finite. `look` reads the tensor to find out, unless it has been packed.

    `first_nonfinite` is the smallest bit pattern, without the sign, of infinity and NaN, or None.
    """

    def __init__(self, look: Callable[[], bool], first_nonfinite: int | None = None) -> None:
        self._look = look
        self._first_nonfinite = first_nonfinite
        self._finite: bool | None = None

    def __call__(self) -> bool:
        if self._finite is None:
            self._finite = self._look()
        return self._finite

    def set_largest(self, pattern: int) -> None:
        """Take note of the largest bit pattern, without the sign, of all numbers."""
        if self._first_nonfinite is not None:
            self._finite = pattern < self._first_nonfinite


def describe_nonfinite(checks: Iterable[tuple[str, Callable[[], bool]]]) -> str:
    """Return a note on the tensors that are not finite, given by name; nothing if all are."""
    names = [name for name, is_finite in checks if not is_finite()]
    if not names:
        return ""
    listed = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
    return f"NaN or infinite values in {plural(len(names), 'weight tensor')} ({listed}): they count as kept"


@dataclass(frozen=True, eq=False)
class StoredNumbers:
    """The `kept` of a layer without a mask.

    `read` returns the numbers in the layer's order, contiguous. Floats that numpy lacks, or compares slowly, come as
    unsigned words; `signed` if a word in which only the highest bit is set is zero too. `position` orders tensors as
    their file holds them. `on_read` is called with the first and last address of the memory that has been read. Packing
    sets the result of `finite`.
    """

    read: Callable[[], NDArray[Any]]
    shape: Shape
    signed: bool = False
    position: int = 0
    on_read: Callable[[int, int], object] | None = None
    finite: FiniteCheck | None = None

    def __call__(self) -> Bools:
        """Return what is kept. -0.0 is zero, NaN is not."""
        numbers = self.read()
        kept = np.asarray((numbers << 1 if self.signed else numbers) != 0).reshape(self.shape)
        self.notify_read(numbers)
        return kept

    def notify_read(self, numbers: NDArray[Any]) -> None:
        """Tell the owner that the pages of these numbers may be released."""
        if self.on_read is not None:
            self.on_read(numbers.ctypes.data, numbers.ctypes.data + numbers.nbytes)
