"""EFF012: direct sparsity is out of bounds."""

from __future__ import annotations

from effsparse_cli.checks.bounds import check_direct
from effsparse_cli.checks.rule import bounds_rule
from effsparse_cli.checks.verdicts import About

RULE = bounds_rule(
    About(
        "EFF012",
        "direct",
        "Direct sparsity must be within --min-direct and --max-direct.",
        """\
Direct sparsity is 1 - kept / all, the fraction of connections that are pruned. Runs if --min-direct or --max-direct
is given.

Example: a sparse runtime pays off only if at least 90 % of the weights are zero: --min-direct 0.9.""",
    ),
    "min-direct",
    "max-direct",
    check=check_direct,
)
