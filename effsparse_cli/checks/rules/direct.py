"""EFF012: direct sparsity is out of bounds."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.checks.bounds import check_direct
from effsparse_cli.checks.rule import Rule, Subject, if_bounded
from effsparse_cli.checks.verdicts import About, Finding

CODE = "EFF012"


def check(subject: Subject) -> Iterator[Finding]:
    yield from check_direct(CODE, subject.analysis.totals, subject.settings.bounds)


RULE = Rule(
    About(
        CODE,
        "direct",
        "Direct sparsity must be within --min-direct and --max-direct.",
        """\
Direct sparsity is 1 - kept / all, the fraction of connections that are pruned. Runs if --min-direct or --max-direct
is given.

Example: a sparse runtime pays off only if at least 90 % of the weights are zero: --min-direct 0.9.""",
    ),
    if_bounded("min-direct", "max-direct"),
    check,
)
