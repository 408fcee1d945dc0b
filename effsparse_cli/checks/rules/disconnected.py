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
        "The network must let its input reach its output.",
        """\
A network in which no path leads from an input to an output computes a constant, however many of its
connections are kept. Runs by default; --no-connected, or connected = false, turns it off.

Example: the only row of fc3 that was kept reads neurons that fc2 no longer feeds. Direct sparsity looks
healthy, effective sparsity is 100 %, and the model gives the same answer for every input.""",
    ),
    applies,
    check,
)
