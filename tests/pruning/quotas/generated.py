"""Generated layers, and every quota by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from hypothesis import strategies as st

from effsparse_cli.pruning import QUOTAS
from effsparse_cli.pruning.quotas import LayerSize, Quota
from effsparse_cli.pruning.quotas.allocation import Floats, sizes_of

EVERY: dict[str, Callable[[list[LayerSize]], Quota]] = {**QUOTAS, "erk strict": partial(QUOTAS["erk"], strict=True)}


@st.composite
def layer_sizes(draw: st.DrawFn) -> list[LayerSize]:
    """Draw a few layers of one to tens of thousands of weights, convolutions and matrices in any order."""
    shapes = draw(st.lists(st.lists(st.integers(1, 24), min_size=1, max_size=4), min_size=1, max_size=7))
    return [
        LayerSize(f"layer {i}", tuple(shape), "conv2d" if len(shape) > 2 else "linear")
        for i, shape in enumerate(shapes)
    ]


def kept_by(quota: Quota, threshold: float) -> Floats:
    """Return the number of connections of each layer with scores >= threshold."""
    return np.array([(scores >= threshold).sum() for scores in all_scores(quota)], dtype=np.float64)


def all_scores(quota: Quota) -> list[Floats]:
    sizes = sizes_of(quota.layers).astype(int)
    return [quota.score(i, (np.arange(n) + 0.5) / n) for i, n in enumerate(sizes)]
