"""Counts as text that never says more than is true: unequal numbers look unequal, and 100 % is all of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import count


def thousands(number: int) -> str:
    return f"{number:,}"


def percents(parts: Sequence[int], whole: int) -> list[str]:
    """Each part of the whole in percent, with as many decimals (two or more) as it takes to tell the parts
    from each other, from nothing and from everything. Only exact ones read "0 %" and "100 %"."""
    if not whole:
        return ["-"] * len(parts)
    for decimals in count(2):
        texts = [_decimal(Fraction(100 * part, whole), decimals) for part in parts]
        known = {0: _decimal(Fraction(0), decimals), whole: _decimal(Fraction(100), decimals)}
        if _faithful([*parts, *known], [*texts, *known.values()]):
            pairs = zip(parts, texts, strict=True)
            return [f"{100 * part // whole} %" if part in known else f"{text} %" for part, text in pairs]
    raise AssertionError("counting ends when the decimals suffice")


def compressions(parts: Sequence[int], whole: int, infinite: str) -> list[str]:
    """The whole over each part: four digits, or as many as it takes to tell the parts apart."""
    finite = [part for part in parts if part]
    for more in count():
        texts = [_ratio(Fraction(whole, part), more) for part in finite]
        if _faithful([*finite, whole], [*texts, "1x"]):
            found = dict(zip(finite, texts, strict=True))
            return [found.get(part, infinite) for part in parts]
    raise AssertionError("counting ends when the decimals suffice")


def _ratio(value: Fraction, more: int) -> str:
    decimals = max(0, 4 - len(str(int(value)))) + more
    text = _decimal(value, decimals)
    return f"{text.rstrip('0').rstrip('.') if decimals else text}x"


def _decimal(value: Fraction, decimals: int) -> str:
    """Rounded from the exact fraction: a float's own error never reaches the last digit shown."""
    scaled = str(round(value * 10**decimals)).rjust(decimals + 1, "0")
    integer = thousands(int(scaled[: len(scaled) - decimals]))
    return f"{integer}.{scaled[len(scaled) - decimals :]}" if decimals else integer


def _faithful(numbers: Sequence[int], texts: Sequence[str]) -> bool:
    return len(set(numbers)) == len(set(texts))


def plural(number: int, noun: str) -> str:
    return f"{thousands(number)} {noun}" if number == 1 else f"{thousands(number)} {noun}s"


def dims(shape: Sequence[int]) -> str:
    return "x".join(str(n) for n in shape) or "scalar"
