"""`check`: judge models by the rules of `effsparse check`, in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from effsparse_cli.api.measuring import read_graph
from effsparse_cli.api.models import LoadKeywords, Model, Names, as_names, name_of, open_model
from effsparse_cli.errors import UsageError

if TYPE_CHECKING:
    from effsparse_cli.report.findings.report import CheckReport


def check(
    model: Model,
    example_input: Any = None,
    *,
    min_effective: str | float | None = None,
    max_effective: str | float | None = None,
    min_direct: str | float | None = None,
    max_direct: str | float | None = None,
    max_gap: str | float | None = None,
    max_inactive: int | None = None,
    connected: bool = True,
    claim: str | float | None = None,
    claims: str = "declared",
    pattern: str | None = None,
    strict_masks: bool = False,
    select: Names = (),
    ignore: Names = (),
    baseline: str | os.PathLike[str] | None = None,
    count_embeddings: bool = False,
    **load: Unpack[LoadKeywords],
) -> CheckReport:
    """Check a live module or a model file against bounds, claims and a baseline. The result's `passed` is the verdict.

    The arguments are the options of `effsparse check`, which checks many files, each in a process of its own with
    limits on memory and time, and reads a project file. This function reads one model, in this process.

    Examples:
        >>> verdict = effsparse.check("model.onnx", min_effective=0.99, max_gap=0.005)
        >>> assert verdict.passed, verdict
    """
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.checks.baseline import baseline_key, read_baseline
    from effsparse_cli.checks.claims import Claims, claims_beside
    from effsparse_cli.checks.judge import judge
    from effsparse_cli.checks.keys import MODEL_KEYS
    from effsparse_cli.checks.rule import Subject
    from effsparse_cli.checks.settings import build_settings

    values: dict[str, Any] = {
        "min-effective": min_effective,
        "max-effective": max_effective,
        "min-direct": min_direct,
        "max-direct": max_direct,
        "max-gap": max_gap,
        "max-inactive": max_inactive,
        "connected": connected,
        "claim": claim,
        "claims": claims,
        "pattern": pattern,
        "strict-masks": strict_masks,
        "select": list(as_names(select)) or None,
        "ignore": list(as_names(ignore)) or None,
    }
    given = {key: MODEL_KEYS[key](value, f"--{key}") for key, value in values.items() if value is not None}
    settings = build_settings([given])
    source = open_model(model, example_input, load)
    name, path = name_of(source), getattr(source, "path", None)
    if baseline is not None and path is None:
        raise UsageError("--baseline compares files: it has no entry for a live module.")
    entries = {} if baseline is None else read_baseline(Path(baseline))
    graph = read_graph(source)
    subject = Subject(
        graph=graph,
        analysis=analyze_graph(graph, count_embeddings=count_embeddings),
        settings=settings,
        claims=claims_beside(path) if path is not None else Claims(),
        baseline=None if baseline is None else entries.get(baseline_key(name, Path(baseline))),
        against_baseline=baseline is not None,
    )
    return build_report([judge(name, subject)])


def build_report(verdicts: Sequence[Any]) -> CheckReport:
    from effsparse_cli.checks.rules import load_rules
    from effsparse_cli.report.findings.report import CheckReport
    from effsparse_cli.version import __version__

    return CheckReport(tuple(verdicts), {code: rule.about for code, rule in load_rules().items()}, __version__)
