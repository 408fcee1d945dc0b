"""N:M patterns, compared with a direct count."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.paths.layouts import Layout
from effsparse_cli.pruning.patterns import find_allowed


@pytest.mark.parametrize("pattern", [(1, 2), (2, 4), (3, 3), (1, 4)])
@pytest.mark.parametrize("shape", [(3, 8), (2, 10), (4, 6, 3, 3), (2, 1, 3)])
def test_the_best_of_each_group_are_allowed(shape: tuple[int, ...], pattern: tuple[int, int]) -> None:
    n, m = pattern
    scores = np.random.default_rng(0).integers(0, 4, shape).astype(np.float64)
    chosen = find_allowed(scores, pattern, "w", Layout(shape, shape))
    rows = np.moveaxis(scores, 1, -1).reshape(-1, shape[1])
    marks = np.moveaxis(chosen, 1, -1).reshape(-1, shape[1])
    for row, mark in zip(rows, marks, strict=True):
        for start in range(0, shape[1], m):
            group = row[start : start + m]
            best = sorted(range(len(group)), key=lambda i: (-group[i], i))[:n]
            assert np.flatnonzero(mark[start : start + m]).tolist() == sorted(best)


def test_a_weight_without_rows_is_refused() -> None:
    with pytest.raises(UsageError, match="--exclude"):
        find_allowed(np.ones((4, 4)), (2, 4), "tied", Layout((4, 4), (4, 4), rows=False))
