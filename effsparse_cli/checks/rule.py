"""What a rule is, and what it looks at: a measured model, what was asked of it and what is said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from effsparse_cli.analysis.results import Analysis
from effsparse_cli.checks.baseline import Entry
from effsparse_cli.checks.claims import Claims
from effsparse_cli.checks.settings import Settings
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Subject:
    """`baseline` is the model's entry in the baseline file; `against_baseline` tells whether there is such a file."""

    graph: Graph
    analysis: Analysis
    settings: Settings = field(default_factory=Settings)
    claims: Claims = field(default_factory=Claims)
    baseline: Entry | None = None
    against_baseline: bool = False

    @property
    def counted(self) -> list[str]:
        """Layers that count, embeddings not among them unless they were asked for."""
        return [layer.name for layer in self.analysis.layers if layer.counts.connections]


@dataclass(frozen=True)
class Rule:
    """`applies` tells whether there is anything to check: a bound, a claim, a mask. `show` gives findings that fail
    nothing, whether it applies or not. `about.code` is its code."""

    about: About
    applies: Callable[[Subject], bool]
    check: Callable[[Subject], Iterable[Finding]]
    show: Callable[[Subject], Iterable[Finding]] = lambda _: ()


def always(_: Subject) -> bool:
    return True
