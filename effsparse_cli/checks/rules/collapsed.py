"""EFF002: a layer has no active connection."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from effsparse_cli.checks.rule import Rule, Subject, always
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.formatting import plural

CODE = "EFF002"


def check(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    for layer in analysis.layers:
        counts = layer.counts
        if counts.active or not counts.connections or _allowed(layer.name, subject.settings.may_collapse):
            continue
        if not counts.kept:
            yield Finding(CODE, "every connection is pruned", layer.name, measured=0, bound=1)
        # In a disconnected network no layer is active, which EFF001 reports once.
        elif not analysis.disconnected:
            kept = plural(counts.kept, "connection")
            yield Finding(CODE, f"keeps {kept}, but none is active", layer.name, measured=0, bound=1)


def _allowed(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


RULE = Rule(
    About(
        CODE,
        "collapsed",
        "Every layer must have an active connection.",
        """\
A layer has collapsed if none of its connections is kept, or none of the kept ones is active. A signal can then only
bypass it through a shortcut. Runs by default; may-collapse = ["blocks.3.*"] in the project file lists layers that are
allowed to collapse, such as a residual branch that was pruned on purpose.

Example: global magnitude pruning removed all 64 connections of a small layer, while the overall sparsity of the model
is exactly the target.""",
    ),
    always,
    check,
)
