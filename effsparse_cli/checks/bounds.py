"""Bounds on counts, compared as exact fractions, and the messages for those that are violated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from effsparse_cli.checks.verdicts import Finding
from effsparse_cli.formatting import percents, plural, thousands

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts  # imports numpy, which the command line does not need


@dataclass(frozen=True)
class Bound:
    """What the command line, the project file and other rules must know about a bound."""

    help: str
    example: str
    is_number: bool = False
    """Whether it is a number of connections; otherwise it is a fraction between 0 and 1."""
    for_layers: bool = False
    """Whether EFF005 checks it for single layers, so that the project file may set it for them."""
    needs_known: bool = False
    """Whether unknown operators can hide that it is violated: EFF011 is then an error."""


BOUNDS: dict[str, Bound] = {
    "min-effective": Bound("Minimum effective sparsity.", "0.99", for_layers=True),
    "max-effective": Bound("Maximum effective sparsity.", "0.999", for_layers=True, needs_known=True),
    "min-direct": Bound("Minimum direct sparsity.", "0.99", for_layers=True),
    "max-direct": Bound("Maximum direct sparsity.", "0.999", for_layers=True),
    "max-gap": Bound("Maximum gap between effective and direct sparsity.", "0.005", for_layers=True, needs_known=True),
    "max-inactive": Bound(
        "Maximum number of inactive connections.", "0", is_number=True, for_layers=True, needs_known=True
    ),
}
"""The options of `effsparse check` and the keys of the project file that set the fields of `Bounds`."""


@dataclass(frozen=True)
class Bounds:
    """Sparsities and the gap are fractions of all connections; `max_inactive` is a number of connections."""

    min_effective: Fraction | None = None
    max_effective: Fraction | None = None
    min_direct: Fraction | None = None
    max_direct: Fraction | None = None
    max_gap: Fraction | None = None
    max_inactive: int | None = None


def direct(counts: Counts) -> Fraction:
    return Fraction(counts.connections - counts.kept, counts.connections)


def effective(counts: Counts) -> Fraction:
    return Fraction(counts.connections - counts.active, counts.connections)


def gap(counts: Counts) -> Fraction:
    return Fraction(counts.inactive, counts.connections)


def format_shares(*values: Fraction) -> list[str]:
    """Format fractions in percent, with enough decimals to tell them apart."""
    whole = math.lcm(*(value.denominator for value in values))
    return percents([value.numerator * (whole // value.denominator) for value in values], whole)


def check_effective(code: str, counts: Counts, bounds: Bounds, layer: str = "", unknown: int = 0) -> Iterator[Finding]:
    hidden = f"; {plural(unknown, 'unknown operator')} may hide more" if unknown else ""
    yield from _below(code, "effective sparsity", effective(counts), bounds.min_effective, layer=layer, more=hidden)
    yield from _above(code, "effective sparsity", effective(counts), bounds.max_effective, layer=layer)


def check_direct(code: str, counts: Counts, bounds: Bounds, layer: str = "") -> Iterator[Finding]:
    yield from _below(code, "direct sparsity", direct(counts), bounds.min_direct, layer=layer)
    yield from _above(code, "direct sparsity", direct(counts), bounds.max_direct, layer=layer)


def check_gap(code: str, counts: Counts, bounds: Bounds, layer: str = "") -> Iterator[Finding]:
    """Check the fraction (`max_gap`) and the number (`max_inactive`) of inactive connections."""
    share = f"{thousands(counts.inactive)} of {plural(counts.kept, 'kept connection')}"
    inactive = f"{share} {'is' if counts.inactive == 1 else 'are'} inactive"
    if bounds.max_gap is not None and gap(counts) > bounds.max_gap:
        difference, bound = format_shares(gap(counts), bounds.max_gap)
        before, after = format_shares(direct(counts), effective(counts))
        message = (
            f"effective sparsity ({after}) exceeds direct sparsity ({before}) by {difference}, more than the allowed "
            f"{bound}: {inactive}"
        )
        yield Finding(code, message, layer, measured=gap(counts), bound=bounds.max_gap)
    if bounds.max_inactive is not None and counts.inactive > bounds.max_inactive:
        verb = "is" if bounds.max_inactive == 1 else "are"
        message = f"{inactive}; at most {thousands(bounds.max_inactive)} {verb} allowed"
        yield Finding(code, message, layer, measured=counts.inactive, bound=bounds.max_inactive)


def _below(
    code: str, name: str, measured: Fraction, bound: Fraction | None, *, layer: str, more: str = ""
) -> Iterator[Finding]:
    if bound is not None and measured < bound:
        actual, minimum = format_shares(measured, bound)
        yield Finding(code, f"{name} is {actual}, below {minimum}{more}", layer, measured=measured, bound=bound)


def _above(code: str, name: str, measured: Fraction, bound: Fraction | None, *, layer: str) -> Iterator[Finding]:
    if bound is not None and measured > bound:
        actual, maximum = format_shares(measured, bound)
        yield Finding(code, f"{name} is {actual}, above {maximum}", layer, measured=measured, bound=bound)
