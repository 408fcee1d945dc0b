"""Stored weights that are their own mask: what is not zero is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Shape


@dataclass(frozen=True, eq=False)
class StoredNumbers:
    """The `kept` of a layer without a mask.

    `read` returns the numbers in the layer's order, contiguous. Floats that numpy lacks, or compares slowly, come as
    unsigned words; `signed` if a word in which only the highest bit is set is zero too. `position` orders tensors as
    their file holds them. `on_read` is called with the first and last address of the memory that has been read.
    """

    read: Callable[[], NDArray[Any]]
    shape: Shape
    signed: bool = False
    position: int = 0
    on_read: Callable[[int, int], object] | None = None

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
