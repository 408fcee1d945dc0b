"""EFF004: too many kept connections are inactive."""

from __future__ import annotations

from effsparse_cli.checks.bounds import check_gap
from effsparse_cli.checks.rule import bounds_rule
from effsparse_cli.checks.verdicts import About

RULE = bounds_rule(
    About(
        "EFF004",
        "gap",
        "Effective sparsity must be close to direct sparsity: --max-gap, --max-inactive.",
        """\
The gap is effective minus direct sparsity, the fraction of all connections that are kept but inactive. Runs if
--max-gap (a fraction) or --max-inactive (a number of connections) is given. --max-inactive 0 requires that every kept
connection is active.

Example: LeNet-300-100 with 99 % of each layer pruned at random keeps 2,662 connections, of which 251 are active.
Direct sparsity is 99.00 %, effective sparsity 99.91 %, the gap 0.91 %: --max-gap 0.005 fails. `effsparse repair` closes
the gap by removing the inactive connections.""",
    ),
    "max-gap",
    "max-inactive",
    check=check_gap,
)
