"""Stored numbers that say themselves what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools, Shape


@dataclass(frozen=True, eq=False)
class Numbers:
    """Keeps what is not zero: the `kept` of a layer whose own numbers decide, and nothing else does.

    `read` gives the numbers in the layer's order, contiguous; floats that numpy lacks, or compares slowly, as unsigned
    words, `signed` where their highest bit alone is a zero too. `place` orders tensors as their file holds them; `done`
    is told from where to where, in memory, they have been read.
    """

    read: Callable[[], NDArray[Any]]
    shape: Shape
    signed: bool = False
    place: int = 0
    done: Callable[[int, int], object] | None = None

    def __call__(self) -> Bools:
        """-0.0 is zero, NaN is not."""
        numbers = self.read()
        kept = np.asarray((numbers << 1 if self.signed else numbers) != 0).reshape(self.shape)
        self.tell(numbers)
        return kept

    def tell(self, numbers: NDArray[Any]) -> None:
        """That they have been read."""
        if self.done is not None:
            self.done(numbers.ctypes.data, numbers.ctypes.data + numbers.nbytes)
