"""The kernel in C and the one in numpy give the same answers. That these are right, witnesses see: the oracle judges
passes with either."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli import kernel
from effsparse_cli.kernel import compiled, plain
from effsparse_cli.kernel.bits import Words, pack, unpack, words_of
from tests.kernel.cases import Case, cases, maps_of

NAMES = ("backward", "forward", "meet", "number", "pack", "tally", "transpose")


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


@given(cases())
def test_misses_and_counts(case: Case) -> None:
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


@given(st.integers(1, 200), st.integers(1, 300), st.sampled_from(["u1", "?", "u2", "i4", "f4", "f8", "i8"]))
def test_pack(rows: int, columns: int, dtype: str) -> None:
    """-0.0 is zero, a denormal and NaN are not."""
    numbers = np.random.default_rng(rows * columns).integers(-1, 2, (rows, columns)).astype(dtype)
    is_float = numbers.dtype.kind == "f"
    if is_float:
        special = np.array([-0.0, np.nan, np.finfo(numbers.dtype).smallest_subnormal, np.inf], numbers.dtype)
        numbers.flat[:4] = special[: numbers.size]
    for module in (plain, compiled):
        words = np.zeros((rows, words_of(columns)), np.uint64)
        counted = module.pack(numbers, words, rows, numbers.itemsize, is_float)
        assert counted == (np.count_nonzero(numbers), np.count_nonzero(~(numbers != 0).any(axis=1)))
        np.testing.assert_array_equal(words, pack(numbers != 0))
        np.testing.assert_array_equal(unpack(words, columns), numbers != 0)


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
