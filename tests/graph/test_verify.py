"""Each kind of illegal graph that a front end might build is rejected with a message that names the node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Concat, Expand, Join, Permute, Pick, Product, Reshape, Take, View, Window
from effsparse_cli.graph.verify import verify

LAYER = Layer("w", "linear", (2, 3), lambda: np.ones((2, 3), bool))


def linear(b: Builder) -> int:
    return b.contract(b.source("x", (1, 3)), b.weight(LAYER))


def input_after_its_node(b: Builder) -> int:
    return b.add(Join(), (linear(b) + 1,), (1, 2))


def wrong_shape(b: Builder) -> int:
    return b.add(Join(), (linear(b),), (1, 3))


def weight_in_a_sum(b: Builder) -> int:
    return b.add(Join(), (b.weight(LAYER),), (2, 3))


def unknown_layer(b: Builder) -> int:
    y = linear(b)
    b.layers.clear()
    return y


def weight_of_another_size(b: Builder) -> int:
    return b.contract(b.source("x", (1, 4)), b.weight(LAYER, (2, 4)))


def view_outside(b: Builder) -> int:
    return b.contract(b.source("x", (1, 3)), b.weight(LAYER, (2, 3), View(1, (3, 1))))


def index_outside(b: Builder) -> int:
    return b.contract(b.source("x", (1, 3)), b.weight(LAYER, (2, 3), View(index=np.full((2, 3), 6))))


def mismatched_channels(b: Builder) -> int:
    return b.contract(b.source("x", (1, 4)), b.weight(LAYER))


def tap_outside(b: Builder) -> int:
    w = b.weight(Layer("c", "conv1d", (1, 1, 1), lambda: np.ones((1, 1, 1), bool)))
    return b.contract(b.source("x", (1, 1, 4)), w, [np.array([[4]])])


def tap_reading_twice(b: Builder) -> int:
    w = b.weight(Layer("c", "conv1d", (1, 1, 1), lambda: np.ones((1, 1, 1), bool)))
    return b.contract(b.source("x", (1, 1, 4)), w, [np.array([[1, 1]])])


def mismatched_letters(b: Builder) -> int:
    x = b.source("x", (2, 3))
    return b.add(Product("ab,bc->ac"), (x, x), (2, 3))


def repeated_axis(b: Builder) -> int:
    return b.add(Permute((0, 0)), (b.source("x", (2, 3)),), (2, 2))


def reshape_to_fewer_elements(b: Builder) -> int:
    return b.add(Reshape(), (b.source("x", (2, 3)),), (5,))


def expand_an_axis_of_two(b: Builder) -> int:
    return b.add(Expand(), (b.source("x", (2, 3)),), (4, 3))


def take_outside(b: Builder) -> int:
    return b.add(Take(0, np.array([2])), (b.source("x", (2, 3)),), (1, 3))


def concat_of_different_sizes(b: Builder) -> int:
    return b.add(Concat(0), (b.source("x", (2, 3)), b.source("y", (2, 4))), (4, 3))


def window_on_one_axis_of_two(b: Builder) -> int:
    return b.add(Window((None,)), (b.source("x", (2, 3)),), (2, 3))


def pick_without_scan(b: Builder) -> int:
    return b.add(Pick(0), (b.source("x", (2,)),), (2,))


def growing_state(b: Builder) -> int:
    return b.scan(lambda body, v: [body.concat([v[0], v[0]], 0)], [b.source("x", (2,))], steps=2)[0]


def stacking_fixed_point(b: Builder) -> int:
    return b.scan(lambda body, v: [v[0], v[0]], [b.source("x", (2,))], steps=None)[0]


FAULTS: list[tuple[Callable[[Builder], int], str]] = [
    (input_after_its_node, "does not come before"),
    (wrong_shape, r"should have \(1, 2\)"),
    (weight_in_a_sum, "not a contraction"),
    (unknown_layer, "no layer 'w'"),
    (weight_of_another_size, "6 stored elements"),
    (view_outside, "outside the stored tensor"),
    (index_outside, "outside the stored tensor"),
    (mismatched_channels, "does not fit"),
    (tap_outside, "reads outside"),
    (tap_reading_twice, "twice"),
    (mismatched_letters, "does not fit"),
    (repeated_axis, "not a permutation"),
    (reshape_to_fewer_elements, "number of elements changes"),
    (expand_an_axis_of_two, "does not broadcast"),
    (take_outside, "outside the input"),
    (concat_of_different_sizes, "sizes differ"),
    (window_on_one_axis_of_two, "the number of tables differs"),
    (pick_without_scan, "no such result"),
    (growing_state, "changes its shape"),
    (stacking_fixed_point, "neither scan nor stack"),
]


@pytest.mark.parametrize(("make", "message"), FAULTS, ids=[make.__name__ for make, _ in FAULTS])
def test_illegal_graph(make: Callable[[Builder], int], message: str) -> None:
    b = Builder()
    with pytest.raises(ValueError, match=message):
        verify(b.finish([make(b)]))


def test_missing_output() -> None:
    b = Builder()
    verify(b.finish([linear(b)]))
    with pytest.raises(ValueError, match="not a value"):
        verify(Graph(tuple(b.nodes), (len(b.nodes),), b.layers))
