"""Apply the selected rules to a measured model and return its verdict."""

from __future__ import annotations

from effsparse_cli.checks.rule import Subject
from effsparse_cli.checks.rules import RULES
from effsparse_cli.checks.select import select_rules
from effsparse_cli.checks.verdicts import UNREADABLE, Verdict

NOTHING_CHECKED = (
    "nothing was checked: none of the selected rules applies to it. Give a bound (--min-effective 0.99), a claim or a "
    "baseline, or select other rules."
)


def judge(model: str, subject: Subject) -> Verdict:
    rules = select_rules(RULES, subject.settings.select, subject.settings.ignore)
    applied = [rule for rule in rules if rule.applies(subject)]
    if not applied:
        return Verdict(model, subject.analysis, problem=NOTHING_CHECKED, problem_code=UNREADABLE)
    findings = [finding for rule in applied for finding in rule.check(subject)]
    notes = [finding for rule in rules for finding in rule.show(subject)]
    return Verdict(model, subject.analysis, (*findings, *notes), tuple(rule.about.code for rule in applied))
