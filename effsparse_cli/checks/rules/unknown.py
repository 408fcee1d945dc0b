"""EFF011: operators that effsparse does not know limit what can be said."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.checks.rule import Rule, Subject, always
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.formatting import plural

CODE = "EFF011"


def check(subject: Subject) -> Iterator[Finding]:
    unknown = subject.analysis.unknown
    if not unknown:
        return
    bounds = [subject.settings.bounds, *(subject.settings.layer(name).bounds for name in subject.counted)]
    from_above = {
        name
        for each in bounds
        for name in ("max_effective", "max_gap", "max_inactive")
        if getattr(each, name) is not None
    }
    asked = f", so {_options(from_above)} cannot be shown to hold" if from_above else ""
    yield Finding(
        CODE,
        f"{plural(len(unknown), 'unknown operator')} ({', '.join(unknown)}): effective sparsity is at least what was "
        f"found{asked}",
        level="error" if from_above else "warning",
        measured=len(unknown),
        bound=0,
    )


def _options(names: set[str]) -> str:
    return " and ".join(f"--{name.replace('_', '-')}" for name in sorted(names))


RULE = Rule(
    About(
        CODE,
        "unknown-operator",
        "Bounds from above need every operator to be known.",
        """\
An operator that effsparse does not know counts as "every output depends on every input". Effective sparsity
can then be higher than what was found, never lower. --min-effective still holds where it is said to, so this
is a warning; --max-effective, --max-gap and --max-inactive could be broken unseen, so with one of them it
fails. Runs by default.

Example: a model with a custom operator between encoder and decoder. --ignore EFF011 accepts the doubt.""",
    ),
    always,
    check,
)
