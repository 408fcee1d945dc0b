"""Select the rules to run, apply them to a measured model, and return its verdict."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.rules import load_rules
from effsparse_cli.checks.verdicts import UNREADABLE, Verdict
from effsparse_cli.errors import UsageError

NOTHING_CHECKED = (
    "nothing was checked: none of the selected rules applies to it. Give a bound (--min-effective 0.99), a claim or a "
    "baseline, or select other rules."
)


def judge(model: str, subject: Subject) -> Verdict:
    rules = select_rules(load_rules(), subject.settings.select, subject.settings.ignore)
    applied = [rule for rule in rules if rule.applies(subject)]
    if not applied:
        return Verdict(model, subject.analysis, problem=NOTHING_CHECKED, problem_code=UNREADABLE)
    findings = [finding for rule in applied for finding in rule.check(subject)]
    notes = [finding for rule in rules for finding in rule.show(subject)]
    return Verdict(model, subject.analysis, (*findings, *notes), tuple(rule.about.code for rule in applied))


def select_rules(rules: Mapping[str, Rule], select: Sequence[str], ignore: Sequence[str]) -> list[Rule]:
    chosen = {find_rule(rules, name).about.code for name in select} or set(rules)
    ignored = {find_rule(rules, name).about.code for name in ignore}
    return [rule for code, rule in rules.items() if code in chosen - ignored]


def find_rule(rules: Mapping[str, Rule], name: str) -> Rule:
    known = {**rules, **{rule.about.name: rule for rule in rules.values()}}
    rule = known.get(name) or known.get(name.upper()) or known.get(name.lower())
    if rule is None:
        (close,) = difflib.get_close_matches(name.upper(), rules, n=1, cutoff=0)
        close = next(iter(difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)), close)
        raise UsageError(f"rule {name}: unknown; did you mean {close}? Choices: {', '.join(rules)}")
    return rule
