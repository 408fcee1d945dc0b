"""The results of a check: one verdict per model, one finding per violation of a rule.

Numbers are exact. In messages they are formatted so that unequal numbers never look equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis

HOLDS, BROKEN, UNREADABLE = 0, 1, 3
"""Exit codes. A model's problem may also be 2 (its options do not fit it) or 101 (a bug in effsparse)."""


@dataclass(frozen=True)
class About:
    """The description of a rule."""

    code: str
    name: str
    summary: str
    explanation: str


@dataclass(frozen=True)
class Finding:
    """`level` is "error", or "warning" or "note" if the finding does not fail the check. `layer` is empty for findings
    about the whole model."""

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
    """`checked` are the codes of the rules that applied. A model that could not be measured has a `problem` and its
    exit code instead of an analysis; a model to which no rule applied has both."""

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
    """The verdicts of one run. Its exit code is the highest of its models, so that unreadable models are never hidden
    by others; a run without models counts as unreadable."""

    models: tuple[Verdict, ...]
    rules: Mapping[str, About]
    version: str

    @property
    def code(self) -> int:
        return max((verdict.code for verdict in self.models), default=UNREADABLE)
