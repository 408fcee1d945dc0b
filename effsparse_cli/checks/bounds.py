"""Bounds on counts, compared as exact fractions, and the messages for those that are violated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from effsparse_cli.checks.verdicts import Finding
from effsparse_cli.formatting import percents, plural, thousands

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts  # imports numpy, which the command line does not need


Bounds = Mapping[str, Fraction | int]
"""Bounds by their keys in `BOUNDS`: fractions of all connections, or numbers of connections."""


def direct(counts: Counts) -> Fraction:
    return Fraction(counts.connections - counts.kept, counts.connections)


def effective(counts: Counts) -> Fraction:
    return Fraction(counts.connections - counts.active, counts.connections)


def gap(counts: Counts) -> Fraction:
    return Fraction(counts.inactive, counts.connections)


def format_shares(*values: Fraction | int) -> list[str]:
    """Format fractions in percent, with enough decimals to tell them apart."""
    whole = math.lcm(*(value.denominator for value in values))
    return percents([value.numerator * (whole // value.denominator) for value in values], whole)


def check_effective(code: str, counts: Counts, bounds: Bounds, layer: str = "", unknown: int = 0) -> Iterator[Finding]:
    hidden = f"; {plural(unknown, 'unknown operator')} may hide more" if unknown else ""
    yield from _below(
        code, "effective sparsity", effective(counts), bounds.get("min-effective"), layer=layer, more=hidden
    )
    yield from _above(code, "effective sparsity", effective(counts), bounds.get("max-effective"), layer=layer)


def check_direct(code: str, counts: Counts, bounds: Bounds, layer: str = "") -> Iterator[Finding]:
    yield from _below(code, "direct sparsity", direct(counts), bounds.get("min-direct"), layer=layer)
    yield from _above(code, "direct sparsity", direct(counts), bounds.get("max-direct"), layer=layer)


def check_gap(code: str, counts: Counts, bounds: Bounds, layer: str = "") -> Iterator[Finding]:
    """Check the fraction (`max-gap`) and the number (`max-inactive`) of inactive connections."""
    share = f"{thousands(counts.inactive)} of {plural(counts.kept, 'kept connection')}"
    inactive = f"{share} {'is' if counts.inactive == 1 else 'are'} inactive"
    max_gap, max_inactive = bounds.get("max-gap"), bounds.get("max-inactive")
    if max_gap is not None and gap(counts) > max_gap:
        difference, bound = format_shares(gap(counts), max_gap)
        before, after = format_shares(direct(counts), effective(counts))
        message = (
            f"effective sparsity ({after}) exceeds direct sparsity ({before}) by {difference}, more than the allowed "
            f"{bound}: {inactive}"
        )
        yield Finding(code, message, layer, measured=gap(counts), bound=max_gap)
    if max_inactive is not None and counts.inactive > max_inactive:
        verb = "is" if max_inactive == 1 else "are"
        message = f"{inactive}; at most {thousands(int(max_inactive))} {verb} allowed"
        yield Finding(code, message, layer, measured=counts.inactive, bound=max_inactive)


def _below(
    code: str, name: str, measured: Fraction, bound: Fraction | int | None, *, layer: str, more: str = ""
) -> Iterator[Finding]:
    if bound is not None and measured < bound:
        actual, minimum = format_shares(measured, bound)
        yield Finding(code, f"{name} is {actual}, below {minimum}{more}", layer, measured=measured, bound=bound)


def _above(code: str, name: str, measured: Fraction, bound: Fraction | int | None, *, layer: str) -> Iterator[Finding]:
    if bound is not None and measured > bound:
        actual, maximum = format_shares(measured, bound)
        yield Finding(code, f"{name} is {actual}, above {maximum}", layer, measured=measured, bound=bound)
