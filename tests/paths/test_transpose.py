"""Turned bits are the bits of the turned matrix."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.paths import transpose as module
from effsparse_cli.paths.bits import pack
from effsparse_cli.paths.transpose import transpose


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_any_matrix(rows: int, columns: int, seed: int) -> None:
    bits = np.random.default_rng(seed).random((rows, columns)) < 0.4
    np.testing.assert_array_equal(transpose(pack(bits), columns), pack(np.ascontiguousarray(bits.T)))


def test_several_slabs() -> None:
    rows = 64 * (2 * module.SLAB // 64 // 3 + 1) + 5
    bits = np.random.default_rng(0).random((rows, 190)) < 0.4
    np.testing.assert_array_equal(transpose(pack(bits), 190), pack(np.ascontiguousarray(bits.T)))


def test_nothing() -> None:
    assert transpose(np.empty((0, 2), np.uint64), 100).shape == (100, 0)
    assert transpose(np.empty((5, 0), np.uint64), 0).shape == (0, 1)
