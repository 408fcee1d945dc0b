"""N:M patterns: of every M consecutive inputs of a row only the N best may stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.layouts import Layout
from effsparse_cli.pruning.scores.ranks import rank_within


def allowed(scores: NDArray[np.floating[Any]], pattern: tuple[int, int], name: str, layout: Layout) -> Bools:
    """`scores` are [rows, inputs, *taps]; groups run along the inputs, for every row and tap. The last group of
    a row is short where M does not divide it. Among equals the earlier input stays."""
    n, m = pattern
    if not layout.rows or scores.ndim < 2:
        raise UsageError(
            f"--pattern {n}:{m} cannot hold in {name}: operators use its weight in several ways, so it has no rows "
            "of inputs. Leave it out with --exclude"
        )
    inputs = np.moveaxis(scores, 1, -1)
    size = inputs.shape[-1]
    ranks = np.moveaxis(rank_within(scores), 1, -1)
    short = -size % m
    padded = np.concatenate([ranks, np.full((*ranks.shape[:-1], short), -1)], axis=-1)
    groups = padded.reshape(*ranks.shape[:-1], -1, m)
    # The N-th best rank of a group is what its members must reach.
    bar = np.partition(groups, m - n, axis=-1)[..., m - n : m - n + 1]
    chosen = (groups >= bar).reshape(*ranks.shape[:-1], size + short)[..., :size]
    return np.ascontiguousarray(np.moveaxis(chosen, -1, 1))
