"""EFF011: unknown operators limit what can be checked."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.checks.rule import Rule, Subject, always
from effsparse_cli.checks.rules import BOUNDS
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.formatting import plural

CODE = "EFF011"


def check(subject: Subject) -> Iterator[Finding]:
    unknown = subject.analysis.unknown
    if not unknown:
        return
    bounds = [subject.settings.bounds, *(subject.settings.layer(name).bounds for name in subject.counted)]
    from_above = {f"--{key}" for each in bounds for key in each if BOUNDS[key].needs_known}
    consequence = f", so {' and '.join(sorted(from_above))} cannot be verified" if from_above else ""
    yield Finding(
        CODE,
        f"{plural(len(unknown), 'unknown operator')} ({', '.join(unknown)}): effective sparsity is at least what was "
        f"found{consequence}",
        level="error" if from_above else "warning",
        measured=len(unknown),
        bound=0,
    )


RULE = Rule(
    About(
        CODE,
        "unknown-operator",
        "Upper bounds require every operator to be known.",
        """\
For an unknown operator, effsparse assumes that every output depends on every input. Effective sparsity may then be
higher than measured, but not lower. --min-effective is still reliable, so this is only a warning. --max-effective,
--max-gap and --max-inactive could be violated unnoticed, so with any of them it is an error. Runs by default.

Example: a model with a custom operator between encoder and decoder. --ignore EFF011 accepts the uncertainty.""",
    ),
    always,
    check,
)
