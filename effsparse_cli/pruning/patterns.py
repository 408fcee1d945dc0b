"""N:M patterns: of every M consecutive inputs of a row only the N best may be kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from effsparse_cli.errors import UsageError
from effsparse_cli.graph.primitives import Bools
from effsparse_cli.paths.layouts import Layout
from effsparse_cli.pruning.scores.ranks import rank_within


def find_allowed(scores: NDArray[np.floating[Any]], pattern: tuple[int, int], name: str, layout: Layout) -> Bools:
    """Return which connections the pattern allows, given scores of shape [rows, inputs, *taps].

    Groups run along the inputs, for every row and tap; the last group is short if M does not divide the row. Ties go to
    the earlier input.
    """
    n, m = pattern
    if not layout.rows or scores.ndim < 2:
        raise UsageError(
            f"--pattern {n}:{m} cannot be applied to {name}: operators use its weight in different layouts, so it has "
            "no rows of inputs. Leave it out with --exclude"
        )
    ranks = np.moveaxis(rank_within(scores), 1, -1)
    size = ranks.shape[-1]
    missing = -size % m
    padded = np.concatenate([ranks, np.full((*ranks.shape[:-1], missing), -1)], axis=-1)
    groups = padded.reshape(*ranks.shape[:-1], -1, m)
    # The N-th best rank of a group is the threshold for its members.
    threshold = np.partition(groups, m - n, axis=-1)[..., m - n : m - n + 1]
    allowed = (groups >= threshold).reshape(*ranks.shape[:-1], size + missing)[..., :size]
    return np.ascontiguousarray(np.moveaxis(allowed, -1, 1))
