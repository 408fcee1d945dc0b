"""Compare the outputs of a model before and after a change. A difference beyond rounding is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import EffsparseError

SEEDS = (1, 2, 3)
SMALLEST = 1e-10
SINGLE = float(np.finfo(np.float32).eps)
MISSING = np.full(0, np.nan)

Outputs = Sequence[Any]
"""Arrays, or sequences and maps of them."""


class ChangedError(EffsparseError):
    """The outputs of the repaired model differ from those of the original."""


@dataclass(frozen=True)
class Agreement:
    difference: float
    scale: float


def compare(
    before: Sequence[Outputs], after: Sequence[Outputs], epsilon: float = SINGLE, what: str = "repaired"
) -> Agreement:
    """Return the largest difference, given one list of outputs per run; raise ChangedError if it is beyond rounding.

    `epsilon` is that of the type that the model computes in; `what` says what the model after the change is called."""
    difference = scale = 0.0
    share = max(SMALLEST, min(1000 * epsilon, epsilon**0.5))
    for old, new in zip(before, after, strict=True):
        for a, b in starmap(_as_numbers, zip_longest(_tensors(list(old)), _tensors(list(new)), fillvalue=MISSING)):
            change = _difference(a, b)
            size = _scale(a)
            allowed = share * size if a.dtype.kind in "fc" else 0.0
            if change > allowed:
                raise ChangedError(
                    f"the {what} model differs from the original by {change:.3g} on a random input (largest output "
                    f"{size:.3g}), which is more than rounding. Nothing was written. Please report this model"
                )
            difference, scale = max(difference, change), max(scale, size)
    return Agreement(difference, scale)


def describe_comparison(not_run: Sequence[str], partly: bool) -> str:
    """Return a note about operators that could not be run."""
    names = ", ".join(not_run)
    if partly:
        return f"{names} cannot be run here: only outputs that do not depend on these operators were compared"
    return f"{names} cannot be run here: their inputs were compared, and outputs for random results of these operators"


def differ(before: Outputs, after: Outputs) -> bool:
    """Whether anything differs, even by rounding."""
    try:
        return compare([before], [after], 0.0).difference > 0
    except ChangedError:
        return True


def _tensors(value: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays of numbers or text in an output; sequences and maps have several."""
    if isinstance(value, list | tuple):
        yield np.asarray(len(value))
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield np.asarray([str(key) for key in value])
        yield from _tensors(list(value.values()))
    elif value is not None:
        array = np.asarray(value)
        # NumPy itself has no bfloat16 and other narrow types.
        yield array.astype(np.float64) if array.dtype.kind == "V" else array


def _as_numbers(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return numbers to compare: text that is not a number becomes 0, and 1 if it differs."""
    if a.dtype.kind not in "OSU" and b.dtype.kind not in "OSU":
        return a, b
    try:
        return a.astype(np.float64), b.astype(np.float64)
    except ValueError:
        return np.zeros(1, int), np.full(1, not np.array_equal(a, b), int)


def _difference(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the largest difference, infinity if only one of two elements is a number."""
    if a.shape != b.shape:
        return float("inf")
    wide = [each.astype(np.complex128 if each.dtype.kind == "c" else np.float64) for each in (a, b)]
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    with np.errstate(invalid="ignore"):
        differences = np.where(same, 0.0, np.abs(wide[0] - wide[1]))
    return float(np.where(np.isnan(differences), np.inf, differences).max(initial=0.0))


def _scale(a: NDArray[Any]) -> float:
    size = np.abs(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64))
    return float(size.max(initial=0.0, where=np.isfinite(size)))
