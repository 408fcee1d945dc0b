"""EFF012: direct sparsity is outside its bounds."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.checks.bounds import check_direct
from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.verdicts import About, Finding

CODE = "EFF012"


def applies(subject: Subject) -> bool:
    bounds = subject.settings.bounds
    return bounds.min_direct is not None or bounds.max_direct is not None


def check(subject: Subject) -> Iterator[Finding]:
    yield from check_direct(CODE, subject.analysis.totals, subject.settings.bounds)


RULE = Rule(
    About(
        CODE,
        "direct",
        "Direct sparsity must be within --min-direct and --max-direct.",
        """\
Direct sparsity is 1 - kept / all: the share of connections that are pruned. Runs where --min-direct or
--max-direct is given.

Example: a model that is read by a sparse runtime needs 90 % zeros to be worth it: --min-direct 0.9.""",
    ),
    applies,
    check,
)
