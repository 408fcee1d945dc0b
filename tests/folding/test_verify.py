"""The comparison of outputs, and when a difference is too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from effsparse_cli.folding.verify import ChangedError, compare

HUGE, TINY = np.array([1e6, -2.0]), np.array([1e-30])


def test_the_largest_difference_of_all_runs_is_returned() -> None:
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
        (np.array(["cat", "dog"], object), np.array(["cat", "cow"], object), 2.0**-23),
        (np.array(["1.5"], object), np.array(["1.6"], object), 2.0**-23),
        ([{"a": 0.5, "b": 0.5}], [{"a": 0.5, "c": 0.5}], 2.0**-23),
        ([{"a": 0.5}], [{"a": 0.5}, {"a": 0.5}], 2.0**-23),
        ([np.array([1.0])], [np.array([2.0])], 2.0**-23),
        (np.array([1.0], bfloat16), np.array([1.5], bfloat16), 2.0**-7),
    ],
)
def test_differences_beyond_rounding(before: Any, after: Any, epsilon: float) -> None:
    with pytest.raises(ChangedError):
        compare([[before]], [[after]], epsilon)


def test_nan_and_infinity_can_be_equal() -> None:
    odd = np.array([np.nan, np.inf, 1.0])
    assert compare([[odd]], [[odd.copy()]]).difference == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (np.array(["cat", "dog"], object), np.array(["cat", "dog"], object)),
        (np.array(["8.9400001", "nan"], object), np.array(["8.94", "nan"], object)),
        ([{"a": 0.5, "b": 0.25}], [{"a": 0.50000001, "b": 0.25}]),
        ([np.array([1.0]), np.array([2])], [np.array([1.0]), np.array([2])]),
        (None, None),
        (np.array([8.9375], bfloat16), np.array([8.875], bfloat16)),
    ],
)
def test_text_sequences_maps_and_narrow_floats(before: Any, after: Any) -> None:
    epsilon = 2.0**-7 if getattr(before, "dtype", None) == bfloat16 else 2.0**-23
    compare([[before]], [[after]], epsilon)
