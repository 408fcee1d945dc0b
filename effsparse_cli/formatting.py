"""Format counts and ratios without misleading rounding: unequal numbers look unequal, and 100 % means all."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import count


def thousands(number: int) -> str:
    return f"{number:,}"


def percents(parts: Sequence[int], whole: int) -> list[str]:
    """Format each part as a percentage of the whole, with enough decimals (at least two) to distinguish the parts from
    each other, from none and from all. "0 %" and "100 %" are exact."""
    if not whole:
        return ["-"] * len(parts)
    for decimals in count(2):
        texts = [_decimal(Fraction(100 * part, whole), decimals) for part in parts]
        known = {0: _decimal(Fraction(0), decimals), whole: _decimal(Fraction(100), decimals)}
        if _faithful([*parts, *known], [*texts, *known.values()]):
            pairs = zip(parts, texts, strict=True)
            return [f"{100 * part // whole} %" if part in known else f"{text} %" for part, text in pairs]
    raise AssertionError("enough decimals distinguish any two fractions")


def compressions(parts: Sequence[int], whole: int, infinite: str) -> list[str]:
    """Format the whole divided by each part, with four digits, or more if needed to distinguish the parts."""
    finite = [part for part in parts if part]
    for more in count():
        texts = [_ratio(Fraction(whole, part), more) for part in finite]
        if _faithful([*finite, whole], [*texts, "1x"]):
            ratios = dict(zip(finite, texts, strict=True))
            return [ratios.get(part, infinite) for part in parts]
    raise AssertionError("enough decimals distinguish any two fractions")


def is_compressed(part: int, whole: int) -> bool:
    """Return whether a compression is worth a sentence: at least 1.01x."""
    return 101 * part <= 100 * whole


def _ratio(value: Fraction, more: int) -> str:
    decimals = max(0, 4 - len(str(int(value)))) + more
    text = _decimal(value, decimals)
    return f"{text.rstrip('0').rstrip('.') if decimals else text}x"


def _decimal(value: Fraction, decimals: int) -> str:
    """Round the exact fraction, so that float errors never reach the last digit."""
    scaled = str(round(value * 10**decimals)).rjust(decimals + 1, "0")
    integer = thousands(int(scaled[: len(scaled) - decimals]))
    return f"{integer}.{scaled[len(scaled) - decimals :]}" if decimals else integer


def _faithful(numbers: Sequence[int], texts: Sequence[str]) -> bool:
    return len(set(numbers)) == len(set(texts))


def plural(number: int, noun: str) -> str:
    return f"{thousands(number)} {noun}" if number == 1 else f"{thousands(number)} {noun}s"


def dims(shape: Sequence[int]) -> str:
    return "x".join(str(n) for n in shape) or "scalar"
