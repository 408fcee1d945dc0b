"""Depth cannot overflow or vanish: both torch engines stay exact where plain floats end."""

from __future__ import annotations

import numpy as np
import pytest

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.paths import find_paths

DEPTH = 1000


def deep(width: int) -> Graph:
    """Number of paths width ** DEPTH on one side; on the other a single thread, joined at the end."""
    b = Builder()
    dense, thread = Layer("dense", "linear", (width, width), lambda: np.ones((width, width), bool)), np.eye(width) > 0
    wide = narrow = b.source("x", (1, width))
    for i in range(DEPTH):
        wide = b.contract(wide, b.weight(dense))
        narrow = b.contract(narrow, b.weight(Layer(f"thread{i}", "linear", (width, width), lambda: thread)))
    return b.finish([b.join(wide, narrow)])


@pytest.mark.parametrize("engine", ["bits", "saturated", "pathnorm"])
def test_a_thousand_layers(engine: str) -> None:
    found = find_paths(deep(8), engine)
    assert found["dense"].count("active") == 64
    assert all(found[f"thread{i}"].count("active") == 8 for i in range(DEPTH))
