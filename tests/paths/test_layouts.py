"""The canonical layout: one order of elements, however they are stored."""

from __future__ import annotations

import numpy as np

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Layer
from effsparse_cli.graph.primitives import View
from effsparse_cli.paths.layouts import find_layouts


def layer(*shape: int) -> Layer:
    return Layer("w", "linear", shape, lambda: np.ones(shape, bool))


def test_transposed_storage_is_read_as_the_operator_reads_it() -> None:
    b = Builder()
    x = b.source("x", (1, 3))
    y = b.contract(x, b.weight(layer(3, 4), (4, 3), View(strides=(1, 4))))
    layout = find_layouts(b.finish([y]))["w"]
    stored = np.arange(12).reshape(3, 4)
    assert layout.rows
    assert (layout.read(stored) == stored.T).all()
    assert (layout.write(layout.read(stored)) == stored).all()


def test_parts_with_separate_uses_are_stacked() -> None:
    b = Builder()
    x = b.source("x", (1, 3))
    low = b.contract(x, b.weight(layer(5, 3), (2, 3), View(offset=9, strides=(3, 1))))
    high = b.contract(x, b.weight(layer(5, 3), (3, 3), View(offset=0, strides=(3, 1))))
    layout = find_layouts(b.finish([low, high]))["w"]
    stored = np.arange(15).reshape(5, 3)
    assert layout.rows
    assert (layout.read(stored) == stored[[3, 4, 0, 1, 2]]).all()
    assert (layout.write(layout.read(stored)) == stored).all()


def test_unused_elements_come_last() -> None:
    b = Builder()
    x = b.source("x", (1, 2))
    y = b.contract(x, b.weight(layer(3, 2), (2, 2), View(offset=2, strides=(2, 1))))
    layout = find_layouts(b.finish([y]))["w"]
    assert not layout.rows
    assert layout.read(np.arange(6).reshape(3, 2)).reshape(-1).tolist() == [2, 3, 4, 5, 0, 1]
