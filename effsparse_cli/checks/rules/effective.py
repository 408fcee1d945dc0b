"""EFF003: effective sparsity is out of bounds."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.checks.bounds import check_effective
from effsparse_cli.checks.rule import Rule, Subject, if_bounded
from effsparse_cli.checks.verdicts import About, Finding

CODE = "EFF003"


def check(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    yield from check_effective(CODE, analysis.totals, subject.settings.bounds, unknown=len(analysis.unknown))


RULE = Rule(
    About(
        CODE,
        "effective",
        "Effective sparsity must be within --min-effective and --max-effective.",
        """\
Effective sparsity is 1 - active / all, the fraction of connections that are pruned or on no path from input to output.
Runs if --min-effective or --max-effective is given. The comparison is exact: with 2,662 of 266,200 connections active,
effective sparsity is 0.99, and --min-effective 0.99 passes.

Example: a fine-tuned model was saved without its masks. Its zeros are gone, effective sparsity is 0 %, and
--min-effective 0.99 fails.""",
    ),
    if_bounded("min-effective", "max-effective"),
    check,
)
