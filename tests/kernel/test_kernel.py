"""The kernel in C and the one in numpy give the same answers. That these are right, witnesses see: the oracle judges
passes with either."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from effsparse_cli import kernel
from effsparse_cli.kernel import compiled, plain
from effsparse_cli.kernel.bits import Words, pack, words_of
from effsparse_cli.kernel.plain import Opened
from tests.kernel.cases import Case, cases, maps_of

NAMES = ("backward", "forward", "meet", "number", "scan", "tally", "transpose")


def test_the_compiled_kernel_is_in_use() -> None:
    """Without a compiler everything works, more slowly; but tests that compared numpy with itself would say nothing."""
    assert kernel.COMPILED
    assert all(getattr(kernel, name) is getattr(compiled, name) for name in NAMES)


@given(cases())
def test_forward_and_backward(case: Case) -> None:
    rows = case.words.shape[0] * case.words.shape[1]
    for name, ends, size, way in (
        ("forward", case.x, rows, case.forward),
        ("backward", case.y, case.groups * case.channels, case.backward),
    ):
        found = []
        for module in (plain, compiled):
            carry = getattr(module, name)
            told = carry(case.words, case.groups, case.channels, ends.numbers, ends.table, way.geometry)
            found.append(maps_of(told, size, way.geometry.outputs))
        np.testing.assert_array_equal(found[0], found[1], err_msg=name)


@contextmanager
def vectors(width: int) -> Iterator[None]:
    """No wider than that."""
    compiled.widen(width)
    try:
        yield
    finally:
        compiled.widen(2)


@given(cases(), st.sampled_from([0, 2]))
def test_misses_and_counts(case: Case, width: int) -> None:
    with vectors(width):
        misses_and_counts(case)


def misses_and_counts(case: Case) -> None:
    found, answers, none = [], [], np.empty(0, np.uint64)
    for module in (plain, compiled):
        missed = np.zeros_like(case.words)
        ends = case.x.numbers, case.x.table, case.y.numbers, case.y.table
        told = module.meet(case.words, case.groups, case.channels, *ends, missed, case.forward.geometry)
        assert told[2] == bool(missed.any())
        answers.append((told, module.meet(case.words, case.groups, case.channels, *ends, none, case.forward.geometry)))
        found.append(missed)
    np.testing.assert_array_equal(found[0], found[1])
    assert answers[0] == answers[1]
    width = case.words.shape[-1]
    sources, targets = _bits(case.words[:, :1]), np.where(_bits(case.words[..., :1]) & np.uint64(1), ~np.uint64(0), 0)
    whole = _bits(case.words)
    for source in (None, sources, whole):
        for target in (None, targets.astype(np.uint64), whole):
            for gone in (None, found[0]):
                asked = case.words, case.groups, width, source, target, gone
                assert plain.tally(*asked) == compiled.tally(*asked)


def _bits(like: Words) -> Words:
    return np.random.default_rng(like.size).integers(0, 1 << 63, like.shape, np.uint64)


SHAPES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 300)), min_size=1, max_size=8)
PIECES = st.sampled_from([1 << 8, 1 << 20])
TYPES = ["u1", "?", "u2", "i4", "f4", "f8", "i8"]


@given(SHAPES, st.sampled_from(TYPES), st.randoms(use_true_random=False), st.booleans(), st.integers(0, 2))
def test_scan(shapes: list[tuple[int, int]], dtype: str, random: Random, helped: bool, width: int) -> None:
    """-0.0 is zero, a denormal and NaN are not. By vectors of any width."""
    sheets = [_numbers(rows, columns, dtype) for rows, columns in shapes]
    expected = np.concatenate([pack(numbers != 0).reshape(-1) for numbers in sheets])
    counts = [(np.count_nonzero(numbers), np.count_nonzero(~(numbers != 0).any(axis=1))) for numbers in sheets]
    order = np.array(random.sample(range(len(sheets)), len(sheets)), np.int32)
    with vectors(width):
        for module in (plain, compiled):
            opened: list[int] = []
            words = np.full(len(expected), ~np.uint64(0))
            calls = partial(_open, sheets, opened)
            found = module.scan(np.array(shapes, np.int64).tobytes(), words, order.tobytes(), calls, helped)
            np.testing.assert_array_equal(np.frombuffer(found, np.int64).reshape(-1, 2), counts)
            np.testing.assert_array_equal(words, expected)
            assert opened == order.tolist()


def _numbers(rows: int, columns: int, dtype: str) -> NDArray[Any]:
    numbers = np.random.default_rng(rows * columns).integers(-1, 2, (rows, columns)).astype(dtype)
    if numbers.dtype.kind == "f":
        special = np.array([-0.0, np.nan, np.finfo(numbers.dtype).smallest_subnormal, np.inf], numbers.dtype)
        numbers.flat[:4] = special[: numbers.size]
    return numbers


def _open(sheets: list[NDArray[Any]], opened: list[int], k: int) -> Opened:
    opened.append(k)
    return sheets[k], sheets[k].itemsize, sheets[k].dtype.kind == "f", None


@pytest.mark.parametrize("module", [plain, compiled], ids=["plain", "compiled"])
@given(SHAPES, st.lists(st.integers(0, 2), min_size=8, max_size=8), st.booleans(), st.booleans(), PIECES)
def test_what_was_read_is_told_in_spans(
    module: Any, shapes: list[tuple[int, int]], owners: list[int], back: bool, helped: bool, piece: int
) -> None:
    """Of two files, and of none. In the order of a file, what was told is gone: nothing that is still to be read may be
    in it."""
    starts = np.cumsum([0, *(rows * columns for rows, columns in shapes)])
    memory = (np.random.default_rng(starts[-1]).random(starts[-1]) < 0.5).astype(np.uint8)
    sheets = [memory[starts[k] : starts[k + 1]].reshape(shape) for k, shape in enumerate(shapes)]
    expected = np.concatenate([pack(numbers != 0).reshape(-1) for numbers in sheets])
    told = np.zeros((2, len(memory)), bool)

    def forget(owner: int, start: int, end: int) -> None:
        span = slice(start - memory.ctypes.data, end - memory.ctypes.data)
        told[owner, span] = True
        if not back:
            memory[span] = 0

    done = [partial(forget, 0), partial(forget, 1), None]
    words = np.empty(len(expected), np.uint64)
    order = np.arange(len(shapes), dtype=np.int32)[:: -1 if back else 1].tobytes()
    before = compiled.cut(piece)
    module.scan(
        np.array(shapes, np.int64).tobytes(), words, order, lambda k: (sheets[k], 1, False, done[owners[k]]), helped
    )
    compiled.cut(before)
    np.testing.assert_array_equal(words, expected)
    for k, owner in enumerate(owners[: len(shapes)]):
        own = told[:, starts[k] : starts[k + 1]]
        assert owner == 2 or (own[owner].all() and not own[1 - owner].any())


@pytest.mark.parametrize("helped", [False, True])
@pytest.mark.parametrize("fails", ["open", "size", "done"])
def test_what_fails_while_numbers_are_read_is_raised(fails: str, helped: bool) -> None:
    """With every sheet large enough for a thread of its own. Nothing is held after that."""
    numbers = np.ones((1100, 1000), np.uint8)
    closed: list[int] = []

    def open_(k: int) -> Opened:
        if fails == "open" and k == 3:
            raise OSError("gone")
        return numbers[: 1 if fails == "size" and k == 3 else 1100], 1, False, bad if k == 3 else good

    def good(start: int, end: int) -> None:
        closed.append(end - start)

    def bad(start: int, end: int) -> None:
        raise OSError("gone")

    held = [sys.getrefcount(each) for each in (numbers, good, bad)]

    words = np.empty((6, 1100, 16), np.uint64)
    sizes, order = np.array([numbers.shape] * 6, np.int64).tobytes(), np.arange(6, dtype=np.int32).tobytes()
    with pytest.raises((OSError, ValueError), match=r"gone|not as large as its shape"):
        compiled.scan(sizes, words, order, open_, helped)
    assert sum(closed) <= 5 * numbers.size
    assert [sys.getrefcount(each) for each in (numbers, good, bad)] == held


def test_a_tensor_of_another_size_is_refused() -> None:
    sizes, order = np.array([[4, 4]], np.int64).tobytes(), np.zeros(1, np.int32).tobytes()
    with pytest.raises(ValueError, match="not as large as its shape"):
        compiled.scan(sizes, np.empty(4, np.uint64), order, lambda _: (np.ones(15, np.uint8), 1, False, None), False)


@given(st.integers(1, 200), st.integers(1, 200))
def test_transpose(rows: int, columns: int) -> None:
    bools = np.random.default_rng(rows * columns).random((rows, columns)) < 0.5
    for module in (plain, compiled):
        turned = np.zeros((columns, words_of(rows)), np.uint64)
        module.transpose(pack(bools), turned, rows, columns)
        np.testing.assert_array_equal(turned, pack(bools.T))


@given(st.integers(1, 200), st.integers(1, 150), st.integers(1, 40))
def test_number(positions: int, maps: int, distinct: int) -> None:
    random = np.random.default_rng(positions * maps)
    rows = pack((random.random((distinct, positions)) < 0.5)[random.integers(0, distinct, maps)])
    for module in (plain, compiled):
        np.testing.assert_array_equal(maps_of(module.number(rows, maps, positions), maps, positions), rows)
