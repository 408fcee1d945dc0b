"""EFF008: a model is worse than its baseline."""

from __future__ import annotations

from collections.abc import Iterator

from effsparse_cli.analysis.results import Counts
from effsparse_cli.checks.baseline import BaselineModel
from effsparse_cli.checks.bounds import direct, effective, format_shares, gap
from effsparse_cli.checks.rule import Rule, Subject
from effsparse_cli.checks.verdicts import About, Finding
from effsparse_cli.formatting import plural, thousands

CODE = "EFF008"


def applies(subject: Subject) -> bool:
    return subject.against_baseline


def check(subject: Subject) -> Iterator[Finding]:
    before, now = subject.baseline, subject.analysis.totals
    if before is None:
        yield Finding(CODE, "the baseline does not contain this model; --write-baseline adds it")
        return
    was = before.totals
    if was.connections != now.connections:
        message = f"{thousands(now.connections)} connections, {thousands(was.connections)} in the baseline"
        yield Finding(CODE, message, measured=now.connections, bound=was.connections)
    allowed = subject.settings.baseline_tolerance
    for name, measure in (("direct", direct), ("effective", effective)):
        if measure(now) < measure(was) - allowed:
            actual, expected = format_shares(measure(now), measure(was))
            layers = _grown(before, subject, "kept" if name == "direct" else "active")
            message = f"{name} sparsity is {actual}, {expected} in the baseline{layers}"
            yield Finding(CODE, message, measured=measure(now), bound=measure(was))
    if gap(now) > gap(was) + allowed:
        message = f"{plural(now.inactive, 'inactive connection')}, {thousands(was.inactive)} in the baseline"
        yield Finding(CODE, message, measured=now.inactive, bound=was.inactive)


def _grown(before: BaselineModel, subject: Subject, field: str) -> str:
    """Name the layers that grew most."""
    more = {x.name: _more(x.counts, before.layers.get(x.name), field) for x in subject.analysis.layers}
    worst = sorted((name for name in more if more[name] > 0), key=lambda name: -more[name])
    named = ", ".join(f"{name} +{thousands(more[name])}" for name in worst[:3])
    return f" ({field}: {named}{', ...' if len(worst) > 3 else ''})" if worst else ""


def _more(now: Counts, was: Counts | None, field: str) -> int:
    return int(getattr(now, field)) - int(getattr(was, field) if was else 0)


RULE = Rule(
    About(
        CODE,
        "regression",
        "A model must not be worse than in the baseline file.",
        """\
--write-baseline FILE saves the counts of all models, --baseline FILE compares with them: direct and effective sparsity
must not decrease, the fraction of inactive connections must not increase, and the number of connections must be the
same. baseline-tolerance in the project file allows small differences. A model that is not in the baseline fails. Runs
if --baseline is given.

Example: after a refactoring, the exporter writes the unmasked weights of two layers, and no other test notices.""",
    ),
    applies,
    check,
)
