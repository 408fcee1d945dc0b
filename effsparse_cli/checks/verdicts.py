"""What a check found, ready to be written in any format: one verdict per model, one finding per broken rule.

Numbers stay exact here. Messages already hold them as text that never makes unequal numbers look equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis

HOLDS, BROKEN, UNREADABLE = 0, 1, 3
"""Exit codes; a model's own problem may also be 2 (its options do not fit it) or 101 (a bug of ours)."""


@dataclass(frozen=True)
class About:
    """A rule as a reader meets it."""

    code: str
    name: str
    summary: str
    explanation: str


@dataclass(frozen=True)
class Finding:
    """`level` is "error", or "warning" or "note" for findings that do not fail a check. `layer` is empty for the whole
    model."""

    code: str
    message: str
    layer: str = ""
    level: str = "error"
    measured: Fraction | int | None = None
    bound: Fraction | int | None = None

    @property
    def text(self) -> str:
        return f"layer {self.layer}: {self.message}" if self.layer else self.message


@dataclass(frozen=True)
class Verdict:
    """`checked` are the codes of the rules that had something to check. A model that could not be measured has
    a `problem` and its exit code instead of an analysis; one that no rule applied to has both."""

    model: str
    analysis: Analysis | None = None
    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    problem: str = ""
    problem_code: int = 0

    @property
    def code(self) -> int:
        failed = any(finding.level == "error" for finding in self.findings)
        return self.problem_code or (BROKEN if failed else HOLDS)

    @property
    def state(self) -> str:
        return "unmeasured" if self.problem else "fails" if self.code else "holds"


@dataclass(frozen=True)
class Verdicts:
    """One run. The highest code of its models is the run's, so that what could not be read is never hidden by
    what could; a run without models measured nothing."""

    models: tuple[Verdict, ...]
    rules: Mapping[str, About]
    version: str

    @property
    def code(self) -> int:
        return max((verdict.code for verdict in self.models), default=UNREADABLE)
