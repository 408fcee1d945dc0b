"""Text: one line per finding, one per model that passes, and a summary at the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from effsparse_cli.formatting import percents, plural
from effsparse_cli.report.escape import escaping, printable

if TYPE_CHECKING:
    from effsparse_cli.checks.verdicts import Finding, Verdict, Verdicts

STATES = {
    "holds": ("pass", "passes"),
    "fails": ("fail", "fails"),
    "unmeasured": ("could not be checked", "could not be checked"),
}
"""Plural and singular."""


@escaping(printable)
def render(verdicts: Verdicts) -> str:
    lines = [line for verdict in verdicts.models for line in _lines(verdict, verdicts)]
    return "\n".join([*lines, summary(verdicts)]) + "\n"


def summary(verdicts: Verdicts) -> str:
    states = Counter(verdict.state for verdict in verdicts.models)
    parts = [f"{number} {words[number == 1]}" for state, words in STATES.items() if (number := states[state])]
    codes = sorted({f.code for verdict in verdicts.models for f in verdict.findings if f.level == "error"})
    broken = f" ({', '.join(codes)})" if codes else ""
    return f"{plural(len(verdicts.models), 'model')} checked: {', '.join(parts) or 'nothing was measured'}{broken}"


def sparsities(verdict: Verdict) -> tuple[str, str]:
    """Return direct and effective sparsity."""
    if verdict.analysis is None:
        return "", ""
    totals = verdict.analysis.totals
    direct, effective = percents([totals.connections - n for n in (totals.kept, totals.active)], totals.connections)
    return direct, effective


def title(finding: Finding, verdicts: Verdicts) -> str:
    """Return the code and name of the broken rule, and the level unless it is an error."""
    level = "" if finding.level == "error" else f" ({finding.level})"
    return f"{finding.code} {verdicts.rules[finding.code].name}{level}"


def _lines(verdict: Verdict, verdicts: Verdicts) -> list[str]:
    if verdict.problem:
        return [f"{verdict.model}: {' '.join(verdict.problem.split())}"]
    lines = [f"{verdict.model}: {title(finding, verdicts)}: {finding.text}" for finding in verdict.findings]
    if verdict.state == "holds":
        direct, effective = sparsities(verdict)
        rules = ", ".join(verdict.checked)
        lines.append(f"{verdict.model}: passes, direct {direct}, effective {effective} ({rules})")
    return lines
