"""A recorded pass finds what the pass that it is a recording of finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effsparse_cli import kernel
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import View
from effsparse_cli.kernel import compiled
from effsparse_cli.paths import Pass, packing, sweep
from effsparse_cli.paths.edges import KINDS
from effsparse_cli.paths.recording import program_of
from tests.witnesses.graphs import graphs
from tests.witnesses.wide_graphs import wide_graphs


@contextmanager
def set_to(vectors: int, large: int, narrow: int) -> Iterator[None]:
    """From how many words on, of all and of a row, those that are zero are left out, and by what vectors."""
    widest, usual = compiled.widen(2), compiled.tighten(large, narrow)
    compiled.widen(vectors)
    try:
        yield
    finally:
        compiled.tighten(*usual)
        compiled.widen(widest)


@pytest.mark.parametrize(
    "tight", [(2, 1 << 20, 16), (2, 0, 1), (2, 0, 2), (0, 0, 1)], ids=["loose", "tight", "wide ones", "tight, plain"]
)
@settings(max_examples=60, deadline=None)
@given(graph=st.one_of(graphs(), wide_graphs()))
def test_a_recording_finds_what_the_pass_finds(graph: Graph, tight: tuple[int, int, int]) -> None:
    with set_to(*tight):
        compare_with_the_pass(graph)


@contextmanager
def in_small_pieces() -> Iterator[None]:
    """By two threads, however small a weight is."""
    usual = compiled.cut(64)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packing, "MANY", 0)
            patch.setattr(packing, "_processors", lambda: 2)
            yield
    finally:
        compiled.cut(usual)


@pytest.mark.parametrize("tight", [0, 1 << 20], ids=["tight", "loose"])
@settings(max_examples=60, deadline=None)
@given(graph=st.one_of(graphs(), wide_graphs()))
def test_two_threads_find_what_the_pass_finds(graph: Graph, tight: int) -> None:
    with set_to(2, tight, 1), in_small_pieces():
        compare_with_the_pass(graph)


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 3000), st.integers(1, 300)),
    density=st.sampled_from([0.001, 0.01, 0.1, 0.5, 1.0]),
    last=st.booleans(),
    tied=st.booleans(),
    number=st.integers(0, 99),
)
def test_a_table_that_is_read_to_its_end_last(
    sizes: tuple[int, int], density: float, last: bool, tied: bool, number: int
) -> None:
    """Language models begin with a lookup, which asks for columns alone, and end with the same table or another one."""
    rng, b, (rows, columns) = np.random.default_rng(number), Builder(), sizes
    kept = rng.random((rows, columns)) < density
    kept[:, number % columns] = (np.arange(rows) == rows - 1) & last  # known at the very end, or never in use
    table = Layer("table", "embedding", (rows, columns), partial(np.asarray, kept))
    inner = Layer("inner", "linear", (columns, columns), partial(np.asarray, rng.random((columns, columns)) < density))
    other = Layer("other", "linear", (rows, columns), partial(np.asarray, kept[::-1]))
    x = b.source("x", (1, rows))
    x = b.contract(x, b.weight(table, (columns, rows), View(0, (1, columns))))
    x = b.contract(x, b.weight(inner))
    graph = b.finish([b.contract(x, b.weight(table if tied else other))])
    with set_to(2, 0, 1), in_small_pieces():
        compare_with_the_pass(graph)
        program = program_of(graph)
    assert program is not None
    order = np.frombuffer(program.order, np.int32).tolist()
    assert order == ([-1, 1, 0] if tied else [-1, 1, -3, 0, 2])


@pytest.mark.parametrize("vectors", [2, 0])
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 1300), min_size=2, max_size=4),
    densities=st.lists(st.sampled_from([0.0, 0.0005, 0.005, 0.1, 1.0]), min_size=3, max_size=3),
    number=st.integers(0, 99),
)
def test_wide_rows_that_leave_words_out(sizes: list[int], densities: list[float], number: int, vectors: int) -> None:
    rng, b = np.random.default_rng(number), Builder()
    x = b.source("x", (1, sizes[0]))
    for i, (m, n) in enumerate(pairwise(sizes)):
        kept = rng.random((n, m)) < densities[i]
        kept[:: 1 + number % 3] |= rng.random(m) < densities[i - 1]  # rows of all kinds in one weight
        x = b.contract(x, b.weight(Layer(f"w{i}", "linear", (n, m), partial(np.asarray, kept))))
    with set_to(vectors, 0, 1):
        compare_with_the_pass(b.finish([x]))


@given(groups=st.integers(2, 4), rows=st.integers(1, 3), channels=st.integers(1, 70), number=st.integers(0, 99))
def test_columns_that_only_other_groups_use(groups: int, rows: int, channels: int, number: int) -> None:
    rng, b = np.random.default_rng(number), Builder()
    shapes = {"in": (groups * channels, 5), "grouped": (groups * rows, channels)}
    layers = {k: Layer(k, "linear", s, partial(np.asarray, rng.random(s) < 0.6)) for k, s in shapes.items()}
    x = b.contract(b.source("x", (1, 5)), b.weight(layers["in"]))
    with set_to(2, 0, 1):
        compare_with_the_pass(b.finish([b.contract(x, b.weight(layers["grouped"]), groups=groups)]))


def test_a_pass_keeps_its_values_while_another_one_runs() -> None:
    """What memory a pass has left goes to the next one, but not before nobody looks at it."""
    rng, b, n = np.random.default_rng(1), Builder(), 200
    masks = [{f"w{i}": rng.random((n, n)) < density for i in range(3)} for density in (0.01, 0.02, 0.005)]
    x = b.source("x", (1, n))
    for name, mask in masks[0].items():
        x = b.contract(x, b.weight(Layer(name, "linear", (n, n), partial(np.asarray, mask))))
    graph = b.finish([x])
    sweep(graph)
    for _ in range(2):
        kept = [graph.with_masks(each) for each in masks]
        done = [sweep(each) for each in kept]
        for each, recorded in zip(kept, done, strict=True):
            compare_with_the_pass(each, recorded)


def compare_with_the_pass(graph: Graph, recorded: Pass | None = None) -> None:
    graph = replace(graph)  # with nothing recorded yet
    recorded = recorded or sweep(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "COMPILED", False)
        passed = sweep(graph)
    assert recorded.alive == passed.alive
    assert recorded.uses.keys() == passed.uses.keys()
    for weight, use in passed.uses.items():
        assert recorded.uses[weight].counts == use.counts
        assert recorded.uses[weight].dead == use.dead
        for kind in KINDS:
            np.testing.assert_array_equal(recorded.uses[weight].words(kind), use.words(kind))


def test_it_is_recorded_once() -> None:
    b = Builder()
    weight = Layer("w", "linear", (3, 4), lambda: np.ones((3, 4), bool))
    graph = b.finish([b.contract(b.source("x", (1, 4)), b.weight(weight))])
    program = program_of(graph)
    assert program is not None
    assert program_of(graph) is program
    assert program_of(graph.with_masks({"w": np.zeros((3, 4), bool)})) is program
