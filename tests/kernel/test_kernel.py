"""The loops in C and in numpy return the same. The witnesses test that both are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from effsparse_cli import kernel
from effsparse_cli.kernel import compiled, numpy_loops
from effsparse_cli.kernel.bits import Words, pack, words_of
from tests.kernel.cases import Case, cases, maps_of


def test_the_compiled_kernel_is_in_use() -> None:
    """Without it the other tests would compare numpy with itself."""
    assert kernel.COMPILED
    assert kernel.forward is compiled.forward


@given(cases())
def test_forward_and_backward(case: Case) -> None:
    rows = case.words.shape[0] * case.words.shape[1]
    for name, ends, size, way in (
        ("forward", case.x, rows, case.forward),
        ("backward", case.y, case.groups * case.channels, case.backward),
    ):
        found = []
        for module in (numpy_loops, kernel):
            carry = getattr(module, name)
            numbered = carry(case.words, case.groups, case.channels, ends.numbers, ends.table, way.geometry)
            found.append(maps_of(numbered, size, way.geometry.outputs))
        np.testing.assert_array_equal(found[0], found[1], err_msg=name)


@given(cases())
def test_misses_and_counts(case: Case) -> None:
    found, answers, none = [], [], np.empty(0, np.uint64)
    for module in (numpy_loops, kernel):
        missed = np.zeros_like(case.words)
        ends = case.x.numbers, case.x.table, case.y.numbers, case.y.table
        met = module.meet(case.words, case.groups, case.channels, *ends, missed, case.forward.geometry)
        assert met.has_missed == bool(missed.any())
        answers.append((met, module.meet(case.words, case.groups, case.channels, *ends, none, case.forward.geometry)))
        found.append(missed)
    np.testing.assert_array_equal(found[0], found[1])
    assert answers[0] == answers[1]
    width = case.words.shape[-1]
    sources, targets = _bits(case.words[:, :1]), np.where(_bits(case.words[..., :1]) & np.uint64(1), ~np.uint64(0), 0)
    whole = _bits(case.words)
    for source in (None, sources, whole):
        for target in (None, targets.astype(np.uint64), whole):
            for gone in (None, found[0]):
                arguments = case.words, case.groups, width, source, target, gone
                assert numpy_loops.tally(*arguments) == kernel.tally(*arguments)


def _bits(like: Words) -> Words:
    return np.random.default_rng(like.size).integers(0, 1 << 63, like.shape, np.uint64)


TYPES = ["u1", "?", "u2", "i4", "f4", "f8", "i8"]


@given(st.integers(0, 200), st.integers(0, 300), st.sampled_from(TYPES))
def test_pack(rows: int, columns: int, dtype: str) -> None:
    """-0.0 is zero, a denormal and NaN are not."""
    numbers = _numbers(rows, columns, dtype)
    for module in (numpy_loops, kernel):
        words = np.full((rows, words_of(columns)), ~np.uint64(0))
        packed = module.pack(numbers, words, rows, numbers.itemsize, dtype[0] == "f")
        np.testing.assert_array_equal(words, pack(numbers != 0))
        assert packed.kept == np.count_nonzero(numbers)
        assert packed.empty_rows == np.count_nonzero(~(numbers != 0).any(axis=1))
        assert packed.largest == max(np.abs(numbers).view(f"u{numbers.itemsize}").reshape(-1).tolist(), default=0)


def _numbers(rows: int, columns: int, dtype: str) -> NDArray[Any]:
    numbers = (
        np.random.default_rng(rows * columns).integers(0 if dtype[0] in "iu" else -1, 2, (rows, columns)).astype(dtype)
    )
    if numbers.dtype.kind == "f":
        special = np.array([-0.0, np.nan, np.finfo(numbers.dtype).smallest_subnormal, np.inf], numbers.dtype)
        numbers.flat[:4] = special[: numbers.size]
    return numbers


@pytest.mark.parametrize("module", [numpy_loops, kernel], ids=["numpy", "compiled"])
def test_a_tensor_of_another_size_is_refused(module: Any) -> None:
    with pytest.raises(ValueError, match="does not have the size of its shape"):
        module.pack(np.ones(300, np.uint8), np.empty(4, np.uint64), 2, 1, False)


@given(st.integers(1, 200), st.integers(1, 200))
def test_transpose(rows: int, columns: int) -> None:
    bools = np.random.default_rng(rows * columns).random((rows, columns)) < 0.5
    for module in (numpy_loops, kernel):
        turned = np.zeros((columns, words_of(rows)), np.uint64)
        module.transpose(pack(bools), turned, rows, columns)
        np.testing.assert_array_equal(turned, pack(bools.T))


@given(st.integers(1, 200), st.integers(1, 150), st.integers(1, 40))
def test_number(positions: int, maps: int, distinct: int) -> None:
    random = np.random.default_rng(positions * maps)
    rows = pack((random.random((distinct, positions)) < 0.5)[random.integers(0, distinct, maps)])
    for module in (numpy_loops, kernel):
        np.testing.assert_array_equal(maps_of(module.number(rows, maps, positions), maps, positions), rows)
