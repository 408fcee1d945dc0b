"""Pruning in rounds as one ranking: the top of the ranking equals the mask of every round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from effsparse_cli.graph.primitives import Bools
from effsparse_cli.pruning.scores.rounds import rank_by_rounds


@given(st.integers(1, 6), st.floats(0.01, 1), st.integers(0, 9))
def test_masks_of_every_round_equal_the_top_of_the_ranking(rounds: int, density: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    start = {"a": np.ones((4, 5), bool), "b": draw.random((3, 4)) < 0.8}
    seen: list[Mapping[str, Bools]] = []

    def score_masked(masks: Mapping[str, Bools]) -> Mapping[str, NDArray[np.floating[Any]]]:
        seen.append(masks)
        return {name: draw.integers(0, 4, mask.shape).astype(np.float64) for name, mask in masks.items()}

    ranking = rank_by_rounds(start, density, rounds, score_masked)
    flat = np.concatenate([ranking[name].reshape(-1) for name in start])
    assert (np.isinf(flat) == ~np.concatenate([start[name].reshape(-1) for name in start])).all()
    assert len(np.unique(flat[np.isfinite(flat)])) == np.isfinite(flat).sum()
    for masks in seen:
        kept = np.concatenate([masks[name].reshape(-1) for name in start])
        assert flat[kept].min(initial=np.inf) > flat[~kept].max(initial=-np.inf) or not kept.any()
