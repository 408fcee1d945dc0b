"""Outputs before and after enter, the largest difference leaves; one beyond rounding is an error."""

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
"""Arrays, and where a model gives such, sequences and maps of them."""


class ChangedError(EffsparseError):
    """The repaired model does not compute what the original does."""


@dataclass(frozen=True)
class Agreement:
    difference: float
    scale: float


def compare(before: Sequence[Outputs], after: Sequence[Outputs], epsilon: float = SINGLE) -> Agreement:
    """One list of outputs per run; `epsilon` is that of the type that the model computes in."""
    difference = scale = 0.0
    share = max(SMALLEST, min(1000 * epsilon, epsilon**0.5))
    for old, new in zip(before, after, strict=True):
        for a, b in starmap(_as_numbers, zip_longest(_tensors(list(old)), _tensors(list(new)), fillvalue=MISSING)):
            found = _difference(a, b)
            size = _scale(a)
            allowed = share * size if a.dtype.kind in "fc" else 0.0
            if found > allowed:
                raise ChangedError(
                    f"the repaired model differs from the original by {found:.3g} on a random input, where outputs are "
                    f"up to {size:.3g}: more than rounding. Nothing was written. Please report this model"
                )
            difference, scale = max(difference, found), max(scale, size)
    return Agreement(difference, scale)


def what_was_compared(not_run: Sequence[str], partly: bool) -> str:
    """For a note, where some operators could not be run."""
    names = ", ".join(not_run)
    if partly:
        return f"{names} cannot be run here: only outputs that do not depend on these operators were compared"
    return (
        f"{names} cannot be run here: compared were the values that enter these operators, and the outputs for random "
        "results of theirs"
    )


def differ(before: Outputs, after: Outputs) -> bool:
    """Does anything differ, if only by rounding?"""
    try:
        return compare([before], [after], 0.0).difference > 0
    except ChangedError:
        return True


def _tensors(value: Any) -> Iterator[NDArray[Any]]:
    """The arrays of numbers or text that an output is made of: sequences and maps have several."""
    if isinstance(value, list | tuple):
        yield np.asarray(len(value))
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield np.asarray([str(key) for key in value])
        yield from _tensors(list(value.values()))
    elif value is not None:
        array = np.asarray(value)
        # bfloat16 and other narrow types are not numpy's own.
        yield array.astype(np.float64) if array.dtype.kind == "V" else array


def _as_numbers(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Numbers written as text are compared as numbers; of other text only whether it is the same."""
    if a.dtype.kind not in "OSU" and b.dtype.kind not in "OSU":
        return a, b
    try:
        return a.astype(np.float64), b.astype(np.float64)
    except ValueError:
        return np.zeros(1, int), np.full(1, not np.array_equal(a, b), int)


def _difference(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Infinite where the one is a number and the other none."""
    if a.shape != b.shape:
        return float("inf")
    wide = [each.astype(np.complex128 if each.dtype.kind == "c" else np.float64) for each in (a, b)]
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(wide[0] - wide[1]))
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def _scale(a: NDArray[Any]) -> float:
    size = np.abs(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64))
    return float(size.max(initial=0.0, where=np.isfinite(size)))
