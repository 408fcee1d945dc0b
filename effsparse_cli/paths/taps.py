"""Properties of windows: which positions the taps of a contraction read, forward and backward."""

from __future__ import annotations

import numpy as np

from effsparse_cli.graph.primitives import Bools, Taps
from effsparse_cli.kernel.bits import some


def reach(tables: tuple[Taps, ...]) -> tuple[Bools, Bools]:
    """Return for each tap whether it reads something for every output position, and for any."""
    always, ever = np.ones(1, bool), np.ones(1, bool)
    for table in tables:
        always = (always[:, None] & ~some(table < 0, 1)).reshape(-1)
        ever = (ever[:, None] & some(table >= 0, 1)).reshape(-1)
    return always, ever


def invert(table: Taps, size: int) -> Taps:
    """Return [taps, size] from [taps, out]: the output position that each tap takes an input position to."""
    inverse = np.full((len(table), size), -1)
    tap, out = np.nonzero(table >= 0)
    inverse[tap, table[tap, out]] = out
    return inverse
