"""Ranks within a layer, compared with Python's sort: ties, signed zeros, infinities and adjacent floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from effsparse_cli.pruning.scores.ranks import order_within, rank_within

DTYPES = pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
FEW = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1e-40, 0.5, 1.0, np.inf])


def by_hand(scores: NDArray[Any]) -> list[int]:
    flat = scores.reshape(-1).tolist()
    return sorted(range(len(flat)), key=lambda i: (flat[i], -i))


@DTYPES
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_order_equals_a_sort_with_ties_by_position(dtype: type, data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(0, 5), st.integers(1, 12)))
    width = np.dtype(dtype).itemsize * 8
    values = FEW if data.draw(st.booleans()) else st.floats(width=width, allow_nan=False)  # type: ignore[arg-type]
    scores: NDArray[Any] = data.draw(arrays(np.float64, shape, elements=values)).astype(dtype)
    assert order_within(scores).tolist() == by_hand(scores)
    ranks = rank_within(scores)
    assert ranks.shape == scores.shape
    assert ranks.reshape(-1)[by_hand(scores)].tolist() == list(range(scores.size))


@pytest.mark.parametrize("sign", [1, -1])
def test_float64_that_differ_in_the_last_bits(sign: int) -> None:
    """The positions of four thousand scores replace twelve bits of each; here only the last four bits differ."""
    rng = np.random.default_rng(0)
    scores = sign * (1 + rng.integers(0, 16, 4000) * 2.0**-52)
    assert order_within(scores).tolist() == by_hand(scores)


def test_large_layers() -> None:
    rng = np.random.default_rng(1)
    wide = rng.random(200_000)
    wide[rng.random(wide.size) < 0.5] = 0
    for scores in (wide, wide.astype(np.float32)):
        expected = np.lexsort((-np.arange(scores.size), scores))
        assert (order_within(scores) == expected).all()


def test_ranks_do_not_depend_on_memory_layout() -> None:
    scores = np.random.default_rng(2).random((7, 5)).astype(np.float32)
    assert (rank_within(scores.T) == rank_within(np.ascontiguousarray(scores.T))).all()
    assert (rank_within(scores.T) == rank_within(scores).T).all()
