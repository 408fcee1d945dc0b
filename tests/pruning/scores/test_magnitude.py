"""Magnitudes of weights of every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.pruning.scores.arrays import score_arrays


def test_shape_is_kept_and_weights_are_not_modified() -> None:
    weights = np.array([[1.5, -2.0], [-0.0, 0.25]], dtype=np.float32)
    (scores,) = score_arrays("magnitude", weights)
    assert scores.tolist() == [[1.5, 2.0], [0.0, 0.25]]
    assert scores.dtype == np.float32
    assert weights[0, 1] == -2


def test_nan_and_infinity_are_pruned_last() -> None:
    weights = np.array([np.nan, -np.inf, np.inf, -np.nan, 3.4e38], dtype=np.float32)
    (scores,) = score_arrays("magnitude", weights)
    assert np.isposinf(scores).tolist() == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("weights", "expected", "dtype"),
    [
        (np.array([-128, 127], np.int8), [128, 127], np.float32),
        (np.array([-(2**31), 5], np.int32), [2**31, 5], np.float64),
        (np.array([-6e-8, 65504], np.float16), [2**-24, 65504], np.float32),
        (np.array([-1e300, 1e-300]), [1e300, 1e-300], np.float64),
    ],
)
def test_narrow_dtypes_are_widened(weights: NDArray[Any], expected: list[float], dtype: type) -> None:
    (scores,) = score_arrays("magnitude", weights)
    assert scores.tolist() == expected
    assert scores.dtype == dtype
