"""The largest difference between outputs, and when it is too large."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.repair.verify import ChangedError, compare

HUGE, TINY = np.array([1e6, -2.0]), np.array([1e-30])


def test_the_largest_of_all_runs_is_given() -> None:
    found = compare([[HUGE], [TINY]], [[HUGE + 1e-5], [TINY]], 2.0**-52)
    assert (round(found.difference, 7), found.scale) == (1e-5, 1e6)


@pytest.mark.parametrize(
    ("before", "after", "epsilon"),
    [
        (np.array([1.0]), np.array([1 + 2e-10]), 2.0**-52),
        (np.array([1.0]), np.array([1.001]), 2.0**-23),
        (np.array([1.0]), np.array([np.nan]), 2.0**-23),
        (np.array([np.inf]), np.array([-np.inf]), 2.0**-23),
        (np.array([0.0]), np.array([1e-20]), 2.0**-23),
        (np.array([3]), np.array([4]), 2.0**-23),
        (np.array([1.0]), np.array([1.0, 1.0]), 2.0**-23),
    ],
)
def test_beyond_rounding(before: np.ndarray, after: np.ndarray, epsilon: float) -> None:
    with pytest.raises(ChangedError):
        compare([[before]], [[after]], epsilon)


def test_equal_without_being_numbers() -> None:
    odd = np.array([np.nan, np.inf, 1.0])
    assert compare([[odd]], [[odd.copy()]]).difference == 0
