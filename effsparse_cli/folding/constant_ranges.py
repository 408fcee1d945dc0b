"""Measure what bias carriers add to an operator's output: the range over all positions that matter and several inputs,
per channel. A range whose ends are equal, apart from rounding, is a constant that can be folded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.folding.carriers import OperatorOutput

Floats = NDArray[np.floating[Any]]
INPUT_SEEDS = (11, 12)
"""Seeds of the two inputs to measure with: what differs between them is not a constant."""
ROUNDINGS = 64
"""Units in the last place of the sum of magnitudes that a constant may vary: the order of summation is not fixed."""


@dataclass(frozen=True, eq=False)
class ConstantRange:
    """For each channel the smallest and largest amount, and the largest sum of the magnitudes of its summands."""

    low: Floats
    high: Floats
    scale: Floats


def measure_range(amount: Floats, magnitude: Floats, axis: int, output: OperatorOutput | None) -> ConstantRange:
    """Return the range of `amount`, the sum that the carriers add, per channel (along `axis`).

    `magnitude` is the same with absolute values. Positions that are known not to matter are ignored."""
    rows = [np.moveaxis(a, axis, 0).reshape(a.shape[axis], -1) for a in (amount, magnitude)]
    if output is None or output.shape != amount.shape:
        return ConstantRange(rows[0].min(1), rows[0].max(1), rows[1].max(1))
    relevant = np.moveaxis(np.broadcast_to(output.relevant, amount.shape), axis, 0).reshape(rows[0].shape)
    low = rows[0].min(1, initial=np.inf, where=relevant)
    high = rows[0].max(1, initial=-np.inf, where=relevant)
    none = ~relevant.any(1)
    low[none] = high[none] = 0
    return ConstantRange(low, high, rows[1].max(1, initial=0, where=relevant))


def merge_ranges(ranges: list[ConstantRange]) -> ConstantRange:
    """Return the range over several inputs."""
    return reduce(
        lambda a, b: ConstantRange(np.minimum(a.low, b.low), np.maximum(a.high, b.high), np.maximum(a.scale, b.scale)),
        ranges,
    )


def find_constants(measured: ConstantRange, epsilon: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the constant of each channel and whether it is one; `epsilon` is that of the type the model computes
    in."""
    finite = np.isfinite(measured.low) & np.isfinite(measured.high)
    low, high = (np.where(finite, bound, 0) for bound in (measured.low, measured.high))
    return low + (high - low) / 2, finite & (high - low <= ROUNDINGS * epsilon * measured.scale)
