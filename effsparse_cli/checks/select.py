"""Choose the rules to run from the codes or names that a user selects or ignores."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from effsparse_cli.checks.rule import Rule
from effsparse_cli.errors import UsageError


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
        raise UsageError(f"unknown rule {name!r}; did you mean {close!r}? Known: {', '.join(rules)}.")
    return rule
