"""Windows in a pass: what the taps of a contraction read of a map of positions, forward and backward."""

from __future__ import annotations

import numpy as np

from effsparse_cli.graph.primitives import Bools, Taps
from effsparse_cli.kernel.bits import some


def reach(tables: tuple[Taps, ...]) -> tuple[Bools, Bools]:
    """Per tap: does it read something for every output position; for any."""
    always, ever = np.ones(1, bool), np.ones(1, bool)
    for table in tables:
        always = (always[:, None] & ~some(table < 0, 1)).reshape(-1)
        ever = (ever[:, None] & some(table >= 0, 1)).reshape(-1)
    return always, ever


def invert(table: Taps, size: int) -> Taps:
    """[taps, out] to [taps, size]: the output position that each tap brings an input position to."""
    inverse = np.full((len(table), size), -1)
    tap, out = np.nonzero(table >= 0)
    inverse[tap, table[tap, out]] = out
    return inverse
