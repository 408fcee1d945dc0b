"""The page of `effsparse check --format html`: one page for many models, with links to the pages of their reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from effsparse_cli.formatting import plural
from effsparse_cli.report.escape import escaped, printable
from effsparse_cli.report.findings import json as findings_json
from effsparse_cli.report.findings.text import STATES, sparsities, summary, title
from effsparse_cli.report.html.filling import embed_json, fill_template

if TYPE_CHECKING:
    from effsparse_cli.checks.verdicts import Finding, Verdict, Verdicts


@dataclass(frozen=True)
class FindingLine:
    code: str
    title: str
    text: str


@dataclass(frozen=True)
class ModelLine:
    """A model of the table. `result` is its state in words, `link` the address of its own page, if it has one."""

    name: str
    state: str
    result: str
    direct: str
    effective: str
    problem: str
    findings: Sequence[FindingLine]
    link: str


@dataclass(frozen=True)
class RuleText:
    """A rule: what it requires, paragraphs that explain it, and how many models violate it."""

    code: str
    name: str
    summary: str
    explanation: Sequence[str]
    violations: int


@dataclass(frozen=True)
class StateCount:
    state: str
    words: str
    number: int


@dataclass(frozen=True)
class Check:
    title: str
    summary: str
    counts: Sequence[StateCount]
    models: Sequence[ModelLine]
    rules: Sequence[RuleText]
    version: str


def render(verdicts: Verdicts, links: Mapping[str, str] | None = None) -> str:
    """Return the page. `links` has the addresses of the models' own pages, relative to this one, by model."""
    return fill_template(
        "check.html",
        script="check.js",
        check=(check := build_check(verdicts, links or {})),
        version=check.version,
        document=embed_json(findings_json.render(verdicts)),
        view=None,
    )


def build_check(verdicts: Verdicts, links: Mapping[str, str] = {}) -> Check:
    addresses = [links.get(verdict.model, "") for verdict in verdicts.models]
    shown = escaped(verdicts, printable)
    states = Counter(verdict.state for verdict in shown.models)
    violations = Counter(code for verdict in shown.models for code in _violated(verdict))
    return Check(
        title=f"{plural(len(shown.models), 'model')} checked",
        summary=summary(shown),
        counts=[StateCount(state, words[states[state] == 1], states[state]) for state, words in STATES.items()],
        models=[_model_line(verdict, shown, link) for verdict, link in zip(shown.models, addresses, strict=True)],
        # The texts of rules are ours, and have line breaks.
        rules=[
            RuleText(code, about.name, about.summary, about.explanation.split("\n\n"), violations[code])
            for code, about in verdicts.rules.items()
        ],
        version=shown.version,
    )


def _violated(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings if finding.level == "error"}


def _model_line(verdict: Verdict, verdicts: Verdicts, link: str) -> ModelLine:
    direct, effective = sparsities(verdict)
    return ModelLine(
        name=verdict.model,
        state=verdict.state,
        result=STATES[verdict.state][True],
        direct=direct,
        effective=effective,
        problem=verdict.problem,
        findings=[_finding_line(finding, verdicts) for finding in verdict.findings],
        link=link,
    )


def _finding_line(finding: Finding, verdicts: Verdicts) -> FindingLine:
    return FindingLine(finding.code, title(finding, verdicts), finding.text)
