"""Patterns in masks that have one by construction, in masks that have none, and in those that have one by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from effsparse_cli.analysis.measure import analyze_graph
from effsparse_cli.analysis.patterns import broken
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Bools, View
from effsparse_cli.graph.windows import sliding

Random = np.random.Generator


def linear(kept: Bools) -> Graph:
    b = Builder()
    x = b.source("x", (1, kept.shape[1]))
    return b.finish([b.contract(x, b.weight(Layer("w", "linear", kept.shape, lambda: kept)))])


def convolution(kept: Bools, groups: int = 1) -> Graph:
    b = Builder()
    x = b.source("x", (1, kept.shape[1] * groups, 9, 9))
    weight = b.weight(Layer("w", "conv2d", kept.shape, lambda: kept))
    windows = [sliding(9, 3, before=1, after=1)] * 2
    return b.finish([b.contract(x, weight, windows, groups)])


def pattern(graph: Graph) -> str:
    (layer,) = analyze_graph(graph, patterns=True).layers
    return layer.pattern


def strewn(random: Random, *shape: int, density: float) -> Bools:
    return np.asarray(random.random(shape) < density)


def of_consecutive(random: Random, shape: tuple[int, ...], n: int, m: int) -> Bools:
    """Exactly n of each m consecutive inputs; what is short at the end keeps at most n."""
    rows, inputs, *taps = shape
    scores = random.random((rows, *taps, -(-inputs // m), m))
    kept = scores.argsort(axis=-1).argsort(axis=-1) < n
    return np.ascontiguousarray(np.moveaxis(kept.reshape(rows, *taps, -1)[..., :inputs], -1, 1))


def in_blocks(random: Random, rows: int, inputs: int, height: int, width: int, density: float) -> Bools:
    few = strewn(random, -(-rows // height), -(-inputs // width), density=density)
    return few.repeat(height, axis=0)[:rows].repeat(width, axis=1)[:, :inputs]


@pytest.mark.parametrize(
    ("n", "m"), [(1, 2), (2, 4), (1, 4), (4, 8), (2, 8), (1, 8), (8, 16), (1, 16), (16, 32), (4, 32), (1, 32)]
)
def test_consecutive(n: int, m: int) -> None:
    random = np.random.default_rng(n * m)
    assert pattern(linear(of_consecutive(random, (64, 256), n, m))) == f"{n}:{m}"
    assert pattern(linear(of_consecutive(random, (64, 250), n, m))) == f"{n}:{m}", "the last group is short"


def test_patterns_of_convolutions_run_along_inputs() -> None:
    random = np.random.default_rng(1)
    kept = of_consecutive(random, (16, 32, 3, 3), 2, 4)
    assert pattern(convolution(kept)) == "2:4"
    assert pattern(convolution(kept, groups=2)) == "2:4"
    turned = np.ascontiguousarray(kept.transpose(0, 3, 2, 1)).reshape(16, 32, 3, 3)
    assert pattern(convolution(turned)) == ""


def test_patterns_of_transposed_weights_follow_the_operator() -> None:
    kept = of_consecutive(np.random.default_rng(2), (64, 128), 2, 4)
    b = Builder()
    stored = np.ascontiguousarray(kept.T)
    layer = Layer("w", "linear", stored.shape, lambda: stored)
    weight = b.weight(layer, (64, 128), View(strides=(1, 64)))
    assert pattern(b.finish([b.contract(b.source("x", (1, 128)), weight)])) == "2:4"
    assert pattern(linear(stored)) == ""


def test_one_broken_group_is_enough() -> None:
    kept = of_consecutive(np.random.default_rng(3), (64, 256), 2, 4)
    kept[63, -4:] = True
    assert pattern(linear(kept)) == ""


def test_a_pattern_with_more_pruned_is_recognized() -> None:
    random = np.random.default_rng(4)
    kept = of_consecutive(random, (128, 256), 2, 4) & strewn(random, 128, 256, density=0.8)
    assert pattern(linear(kept)) == "2:4"


@pytest.mark.parametrize(("height", "width"), [(4, 4), (1, 4), (4, 1), (3, 5), (16, 16), (1, 64), (32, 2)])
def test_blocks(height: int, width: int) -> None:
    random = np.random.default_rng(height * width)
    assert pattern(linear(in_blocks(random, 96, 320, height, width, 0.3))) == f"{height}x{width} blocks"
    assert pattern(linear(in_blocks(random, 97, 323, height, width, 0.3))) == f"{height}x{width} blocks"


def test_whole_channels() -> None:
    random = np.random.default_rng(5)
    outputs, inputs = strewn(random, 64, density=0.6), strewn(random, 32, density=0.4)
    for rows, columns in ((outputs, inputs), (outputs, inputs | True), (outputs | True, inputs)):
        kept = rows[:, None, None, None] & columns[None, :, None, None] & np.ones((1, 1, 3, 3), bool)
        assert pattern(convolution(kept)) == "whole channels"
        assert pattern(linear(kept[:, :, 0, 0])) == "whole channels"
    middle = np.zeros((1, 1, 3, 3), bool)
    middle[..., 1, 1] = True
    assert pattern(convolution(np.broadcast_to(middle, (16, 8, 3, 3)) & outputs[:16, None, None, None])) != (
        "whole channels"
    ), "kernels are not whole"


def test_blocks_are_tighter_than_what_they_imply() -> None:
    """Of two inputs in four, four outputs at a time: the blocks leave fewer masks than 2:4."""
    kept = of_consecutive(np.random.default_rng(6), (16, 128), 2, 4).repeat(4, axis=0)
    assert pattern(linear(kept)) == "4x1 blocks"


@pytest.mark.parametrize("density", [1.0, 0.9, 0.5, 0.25, 0.1, 0.03, 0.01, 0.001])
@pytest.mark.parametrize("seed", range(3))
def test_random_masks_have_none(density: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    for shape in ((300, 784), (100, 300), (10, 100), (2, 8), (1, 1)):
        assert pattern(linear(strewn(random, *shape, density=density))) == ""
    assert pattern(convolution(strewn(random, 16, 8, 3, 3, density=density))) == ""
    assert pattern(convolution(strewn(random, 32, 1, 3, 3, density=density), groups=32)) == ""


def test_empty_and_dense_layers_have_none() -> None:
    assert pattern(linear(np.zeros((64, 64), bool))) == ""
    assert pattern(linear(np.ones((64, 64), bool))) == ""
    one = np.zeros((64, 64), bool)
    one[3, 5] = True
    assert pattern(linear(one)) == "", "one connection is whatever one likes to call it"


def holds(kept: Bools, found: str) -> bool:
    """Group by group, in plain Python."""
    rows, inputs = kept.shape
    if ":" in found:
        n, m = map(int, found.split(":"))
        return all(sum(row[i : i + m].tolist()) <= n for row in kept for i in range(0, inputs, m))
    height, width = map(int, found.removesuffix(" blocks").split("x"))
    cells = (kept[r : r + height, c : c + width] for r in range(0, rows, height) for c in range(0, inputs, width))
    return all(bool(cell.all()) or not cell.any() for cell in cells)


@st.composite
def masks(draw: st.DrawFn) -> NDArray[Any]:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, inputs = draw(st.integers(1, 40)), draw(st.integers(1, 70))
    kind = draw(st.sampled_from(["strewn", "consecutive", "blocks"]))
    if kind == "consecutive":
        m = draw(st.sampled_from([2, 4, 8, 16, 32]))
        return of_consecutive(random, (rows, inputs), draw(st.integers(1, m)), m)
    density = draw(st.floats(0, 1))
    if kind == "blocks":
        return in_blocks(random, rows, inputs, draw(st.integers(1, 9)), draw(st.integers(1, 9)), density)
    return strewn(random, rows, inputs, density=density)


@settings(deadline=None, max_examples=150)
@given(masks())
def test_reported_patterns_hold(kept: Bools) -> None:
    found = pattern(linear(kept))
    if found == "whole channels":
        assert (kept == np.outer(kept.any(axis=1), kept.any(axis=0))).all()
    elif found:
        assert holds(kept, found)
        assert broken(kept, found.removesuffix(" blocks"))[0] == 0


@settings(deadline=None, max_examples=100)
@given(masks(), st.sampled_from(["1:2", "2:4", "1:4", "3:7", "2x2", "4x1", "3x5"]))
def test_broken_groups_equal_a_count_in_python(kept: Bools, pattern: str) -> None:
    assume(kept.size)
    assert (broken(kept, pattern)[0] == 0) == holds(kept, pattern)
