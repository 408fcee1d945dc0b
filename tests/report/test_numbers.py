"""Properties of every printed number."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from effsparse_cli.formatting import compressions, percents, plural
from tests.report.analyses import unhurried

wholes = st.integers(1, 10**12)
parts_of_a_whole = wholes.flatmap(lambda whole: st.tuples(st.lists(st.integers(0, whole), max_size=4), st.just(whole)))


def value(text: str) -> Fraction:
    return Fraction(text.removesuffix(" %").removesuffix("x").replace(",", ""))


@unhurried
@given(parts_of_a_whole)
@example(([99_996], 100_000))
@example(([1, 2], 10**12))
def test_percents_distinguish_parts_and_are_close(case: tuple[list[int], int]) -> None:
    parts, whole = case
    texts = percents(parts, whole)
    for part, text in zip(parts, texts, strict=True):
        assert abs(value(text) - Fraction(100 * part, whole)) <= Fraction(1, 200)
        assert (value(text) == 100) == (part == whole)
        assert (value(text) == 0) == (part == 0)
    assert [value(a) < value(b) for a in texts for b in texts] == [a < b for a in parts for b in parts]


def test_percents_of_an_empty_whole() -> None:
    assert percents([0, 0], 0) == ["-", "-"]


def test_percents_examples() -> None:
    assert percents([11, 16], 21) == ["52.38 %", "76.19 %"]
    assert percents([99_996], 100_000) == ["99.996 %"]
    assert percents([0, 5, 5], 5) == ["0 %", "100 %", "100 %"]


@unhurried
@given(parts_of_a_whole)
def test_compressions_distinguish_parts_and_are_close(case: tuple[list[int], int]) -> None:
    parts, whole = case
    texts = compressions(parts, whole, "none")
    assert [text == "none" for text in texts] == [part == 0 for part in parts]
    finite = [(part, value(text)) for part, text in zip(parts, texts, strict=True) if part]
    for part, shown in finite:
        assert abs(shown / Fraction(whole, part) - 1) <= Fraction(1, 2000)
        assert (shown == 1) == (part == whole)
    assert [a < b for a, _ in finite for b, _ in finite] == [a > b for _, a in finite for _, b in finite]


def test_compressions_examples() -> None:
    assert compressions([10, 5], 21, "") == ["2.1x", "4.2x"]
    assert compressions([2662, 252], 266_200, "") == ["100x", "1,056x"]
    assert compressions([999, 1000, 0], 1000, "infinite") == ["1.001x", "1x", "infinite"]


def test_plural() -> None:
    assert (plural(1, "layer"), plural(1000, "layer")) == ("1 layer", "1,000 layers")
