"""EFF003: effective sparsity is outside its bounds."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.checks.bounds import check_effective
from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.verdicts import About, Finding

CODE = "EFF003"


def applies(subject: Subject) -> bool:
    bounds = subject.settings.bounds
    return bounds.min_effective is not None or bounds.max_effective is not None


def check(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    yield from check_effective(CODE, analysis.totals, subject.settings.bounds, unknown=len(analysis.unknown))


RULE = Rule(
    About(
        CODE,
        "effective",
        "Effective sparsity must be within --min-effective and --max-effective.",
        """\
Effective sparsity is 1 - active / all: the share of connections that are pruned or do not lie on any path from
input to output. Runs where --min-effective or --max-effective is given. The comparison is exact: a model
with 2,662 of 266,200 connections active has 0.99, and --min-effective 0.99 holds.

Example: a fine-tuned model was saved without its masks. Its zeros are gone, effective sparsity is 0 %, and
--min-effective 0.99 fails.""",
    ),
    applies,
    check,
)
