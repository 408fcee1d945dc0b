"""Selection without sorting equals selection by sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.pruning.topk import Scores, keep_best, kth_largest

VALUES = st.floats(allow_nan=False, width=32) | st.sampled_from([0.0, -0.0, 1.0, float("inf"), float("-inf")])
ARRAYS = st.lists(st.lists(VALUES, min_size=1, max_size=20), min_size=1, max_size=4)


@given(ARRAYS, st.sampled_from([np.float32, np.float64]), st.data())
def test_kth_largest(lists: list[list[float]], dtype: type, data: st.DataObject) -> None:
    arrays: list[Scores] = [np.array(values, dtype) for values in lists]
    ordered = np.sort(np.concatenate(arrays))[::-1]
    k = data.draw(st.integers(1, len(ordered)))
    assert kth_largest(arrays, k) == ordered[k - 1]


@given(ARRAYS, st.integers(0, 90))
def test_keep_best_keeps_an_exact_count_with_ties_by_position(lists: list[list[float]], k: int) -> None:
    scores = {str(i): np.array(values, np.float32) for i, values in enumerate(lists)}
    flat = np.concatenate(list(scores.values()))
    order = np.argsort(-flat, kind="stable")
    wanted = np.zeros(len(flat), bool)
    wanted[order[:k]] = True
    wanted &= flat > -np.inf
    chosen = np.concatenate([mask.reshape(-1) for mask in keep_best(scores, k).values()])
    np.testing.assert_array_equal(chosen, wanted)
