"""EFF001: no path leads from a model input to a model output."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.verdicts import About, Finding

CODE = "EFF001"


def applies(subject: Subject) -> bool:
    return subject.settings.connected


def check(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis.disconnected:
        where = f"; the signal is cut at {analysis.cut}" if analysis.cut else ""
        yield Finding(CODE, f"no path leads from the input to the output{where}")


RULE = Rule(
    About(
        CODE,
        "disconnected",
        "The input must reach the output.",
        """\
A network without a path from input to output computes a constant, however many connections it keeps. Runs by default;
--no-connected, or connected = false in the project file, turns it off.

Example: the only row kept in fc3 reads neurons whose inputs in fc2 are all pruned. Direct sparsity looks normal,
effective sparsity is 100 %, and the model gives the same output for every input.""",
    ),
    applies,
    check,
)
