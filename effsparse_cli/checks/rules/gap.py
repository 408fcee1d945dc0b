"""EFF004: too many kept connections are inactive."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.checks.bounds import check_gap
from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.verdicts import About, Finding

CODE = "EFF004"


def applies(subject: Subject) -> bool:
    bounds = subject.settings.bounds
    return bounds.max_gap is not None or bounds.max_inactive is not None


def check(subject: Subject) -> Iterator[Finding]:
    yield from check_gap(CODE, subject.analysis.totals, subject.settings.bounds)


RULE = Rule(
    About(
        CODE,
        "gap",
        "Effective sparsity must be near direct sparsity: --max-gap, --max-inactive.",
        """\
The gap is effective minus direct sparsity: the share of all connections that are kept and do nothing. Runs
where --max-gap (a share) or --max-inactive (a number of connections) is given. --max-inactive 0 asks for
files in which every kept connection works.

Example: LeNet-300-100 with 99 % of each layer pruned at random keeps 2,662 connections, of which 251 are active.
Direct sparsity is 99.00 %, effective 99.91 %, the gap 0.91 %: --max-gap 0.005 fails. Removing the inactive
connections from the file closes the gap.""",
    ),
    applies,
    check,
)
