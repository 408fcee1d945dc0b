"""Numbers are parsed exactly as written, and choices in any case."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.arguments import choose, parse_share, to_arguments
from effsparse_cli.errors import UsageError


@given(st.decimals(0, 1, places=8, allow_nan=False))
def test_a_share_and_its_percentage_are_equal(share: Decimal) -> None:
    assert parse_share(f"{share:f}", "--target") == Fraction(share) == parse_share(f"{share * 100:f}%", "--target")


@pytest.mark.parametrize("text", ["", "x", "%", "1e999999999", "nan", "inf", "0x1", "1/0", "-0.1", "101%", "1" * 5000])
def test_other_texts_are_errors(text: str) -> None:
    with pytest.raises(UsageError, match="--target"):
        parse_share(text, "--target")


@given(st.text(max_size=8))
def test_choices(text: str) -> None:
    known = ("igq", "erk", "uniform+")
    if text.lower() in known:
        assert choose(text, known, "--lsq") == text.lower()
    else:
        with pytest.raises(UsageError, match=r"[cC]hoices:"):
            choose(text, known, "--lsq")


def test_options_become_arguments() -> None:
    message = "--target 1.5: use --max-gap 0.1, or -o FILE.onnx (--keep-inactive keeps --x-y and more)"
    expected = "target=1.5: use max_gap=0.1, or output=FILE.onnx (keep_inactive keeps x_y and more)"
    assert to_arguments(message) == expected
