"""The `Rule` of a check, and the `Subject` it looks at: a measured model, its settings, claims and baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from effsparse_cli.analysis.results import Analysis, Counts
from effsparse_cli.checks.baseline import BaselineModel
from effsparse_cli.checks.bounds import Bounds
from effsparse_cli.checks.claims import Claims
from effsparse_cli.checks.settings import Settings
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Subject:
    """`baseline` is the model in the baseline file; `against_baseline` is True if there is such a file."""

    graph: Graph
    analysis: Analysis
    settings: Settings = field(default_factory=Settings)
    claims: Claims = field(default_factory=Claims)
    baseline: BaselineModel | None = None
    against_baseline: bool = False

    @property
    def counted(self) -> list[str]:
        """Names of the layers with connections. Embeddings are included only with --count-embeddings."""
        return [layer.name for layer in self.analysis.layers if layer.counts.connections]


@dataclass(frozen=True)
class Rule:
    """`applies` returns whether there is anything to check: a bound, a claim, a mask. `show` returns findings that do
    not fail the check, whether the rule applies or not."""

    about: About
    applies: Callable[[Subject], bool]
    check: Callable[[Subject], Iterable[Finding]]
    show: Callable[[Subject], Iterable[Finding]] = lambda _: ()


def always(_: Subject) -> bool:
    return True


def bounds_rule(about: About, *names: str, check: Callable[[str, Counts, Bounds], Iterable[Finding]]) -> Rule:
    """Return a rule that checks the totals of a model, if any of the bounds `names` is set."""
    return Rule(
        about,
        if_bounded(*names),
        lambda subject: check(about.code, subject.analysis.totals, subject.settings.bounds),
    )


def if_bounded(*names: str) -> Callable[[Subject], bool]:
    """Return an `applies` function: is any of these bounds set?"""
    return lambda subject: any(name in subject.settings.bounds for name in names)
