"""`effsparse check`: models in, what is wrong with them out; the exit code says whether all that was asked holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from effsparse_cli import __version__
from effsparse_cli.checks.verdicts import UNREADABLE, Verdict, Verdicts
from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import names
from effsparse_cli.commands.shared.output import emit, note
from effsparse_cli.commands.shared.progress import progress
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.report.findings import FORMATS

if TYPE_CHECKING:
    from effsparse_cli.checks.targets import Targets
    from effsparse_cli.commands.steps.check_model import CheckTask

EXAMPLES = """\
Examples:

effsparse check model.onnx --min-effective 0.99 --max-gap 0.005

effsparse check models/ --format junit -o effsparse.xml

effsparse check model.pt2 --baseline baseline.json

effsparse check --explain EFF004

Exit codes: 0 all hold; 1 a rule is broken; 2 wrong options; 3 a file cannot be read or nothing was checked. The
highest of all models is the run's.
"""

ASK, RULES, COMPARE = "What must hold", "Which rules run", "Baselines"
Models = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files, folders or patterns; else the project file's paths.",
        metavar="MODEL",
        show_default=False,
    ),
]
MinEffective = Annotated[
    float | None, o.option("--min-effective", help="Least effective sparsity.", panel=ASK, metavar="0.99")
]
MaxEffective = Annotated[
    float | None, o.option("--max-effective", help="Most effective sparsity.", panel=ASK, metavar="0.999")
]
MinDirect = Annotated[float | None, o.option("--min-direct", help="Least direct sparsity.", panel=ASK, metavar="0.99")]
MaxDirect = Annotated[float | None, o.option("--max-direct", help="Most direct sparsity.", panel=ASK, metavar="0.999")]
MaxGap = Annotated[
    float | None, o.option("--max-gap", help="Most effective minus direct sparsity.", panel=ASK, metavar="0.005")
]
MaxInactive = Annotated[
    int | None, o.option("--max-inactive", help="Most inactive connections.", panel=ASK, metavar="0")
]
Connected = Annotated[
    bool | None,
    o.option("--connected/--no-connected", help="Must the input reach the output? Yes by default.", panel=ASK),
]
ClaimOption = Annotated[
    float | None, o.option("--claim", help="The direct sparsity that is claimed.", panel=ASK, metavar="0.99")
]
Pattern = Annotated[
    str | None, o.option("--pattern", help="N:M or blocks that every layer must have.", panel=ASK, metavar="2:4")
]
StrictMasks = Annotated[
    bool | None, o.option("--strict-masks", help="Weights behind a mask of zero must be zero.", panel=ASK)
]
ClaimsOption = Annotated[
    str | None,
    o.option(
        "--claims",
        help="Claims to enforce: declared ones by default, or all, with those in prose and in names.",
        panel=ASK,
        metavar="declared|all",
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    o.option("--exclude", help="Files and folders to leave out of searches (* and ?).", panel=RULES, metavar="PATTERN"),
]
MemoryLimit = Annotated[
    str | None,
    o.option(
        "--memory-limit",
        help="Memory per model; 2 GB and 6 times its size by default.",
        panel=o.FIND,
        metavar="4GB",
    ),
]
TimeLimit = Annotated[
    float | None,
    o.option(
        "--time-limit",
        help="Processor time per model in seconds; 30, and 1 per MB, by default.",
        panel=o.FIND,
        metavar="60",
    ),
]
Select = Annotated[
    list[str] | None,
    o.option("--select", help="Run only these rules, by code or name.", panel=RULES, metavar="EFF001,..."),
]
Ignore = Annotated[
    list[str] | None, o.option("--ignore", help="Leave these rules out.", panel=RULES, metavar="EFF011,...")
]
Explain = Annotated[
    str | None, o.option("--explain", help="Say what a rule means, and end.", panel=RULES, metavar="EFF004")
]
ConfigFile = Annotated[
    Path | None,
    o.option(
        "--config",
        help="The project file; else the nearest effsparse.toml, pyproject.toml.",
        panel=RULES,
        metavar="F",
    ),
]
BaselineFile = Annotated[
    Path | None, o.option("--baseline", help="Fail where a model is worse than here.", panel=COMPARE, metavar="FILE")
]
WriteBaseline = Annotated[
    Path | None,
    o.option("--write-baseline", help="Keep what the models measure now.", panel=COMPARE, metavar="FILE"),
]
Format = Annotated[
    str, o.choice("--format", "-f", help="What to print", panel=o.SHOW, metavar="FORMAT", choices=FORMATS)
]
Jobs = Annotated[
    int | None, o.option("--jobs", "-j", help="Processes; as many as there are cores.", panel=o.FIND, metavar="N")
]


@with_load_arguments
def check(
    load_arguments: LoadArguments,
    models: Models = None,
    min_effective: MinEffective = None,
    max_effective: MaxEffective = None,
    min_direct: MinDirect = None,
    max_direct: MaxDirect = None,
    max_gap: MaxGap = None,
    max_inactive: MaxInactive = None,
    connected: Connected = None,
    claim: ClaimOption = None,
    pattern: Pattern = None,
    strict_masks: StrictMasks = None,
    select: Select = None,
    ignore: Ignore = None,
    explain: Explain = None,
    config: ConfigFile = None,
    baseline: BaselineFile = None,
    write_baseline: WriteBaseline = None,
    format: Format = "text",
    output: o.Output = None,
    count_embeddings: o.CountEmbeddings = False,
    claims: ClaimsOption = None,
    exclude: ExcludeOption = None,
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
) -> None:
    """Fail when a sparse model is not what it is said to be: for CI and pre-commit."""
    if explain is not None:
        emit(_explanation(explain), None)
        return
    from effsparse_cli.checks.keys import MODEL_KEYS, READING_KEYS

    asked: dict[str, Any] = {
        "min-effective": min_effective,
        "max-effective": max_effective,
        "min-direct": min_direct,
        "max-direct": max_direct,
        "max-gap": max_gap,
        "max-inactive": max_inactive,
        "connected": connected,
        "claim": claim,
        "pattern": pattern,
        "strict-masks": strict_masks,
        "select": names(select) or None,
        "ignore": names(ignore) or None,
        "count-embeddings": count_embeddings or None,
        "claims": claims,
        "memory-limit": memory_limit,
        "time-limit": time_limit,
    }
    asked |= {key: getattr(load_arguments, key.replace("-", "_")) or None for key in READING_KEYS}

    from effsparse_cli.commands.shared.project import find_project
    from effsparse_cli.commands.steps.check_tasks import baseline_file, find_targets, make_tasks

    given = {key: MODEL_KEYS[key](value, f"--{key}") for key, value in asked.items() if value is not None}
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: there must be at least one process.")
    project = find_project(Path.cwd(), config)
    compared = baseline_file(baseline, project, write_baseline, load_arguments.trust)
    targets = find_targets(models, project, (*names(exclude), *project.check.get("exclude", ())), load_arguments)
    inputs = [*targets.models, project.file, compared, load_arguments.masks]
    check_outputs({"-o": output, "--write-baseline": write_baseline}, inputs)
    tasks = make_tasks(targets, project, given, load_arguments.trust, compared)
    verdicts = _verdicts(targets, tasks, jobs or os.cpu_count() or 1)
    if write_baseline is not None:
        _write_baseline(verdicts, write_baseline)
    emit(FORMATS[format](verdicts), output)
    if format == "github":
        _step_summary(verdicts)
    raise typer.Exit(verdicts.code)


def _explanation(name: str) -> str:
    from effsparse_cli.checks.rules import RULES
    from effsparse_cli.checks.select import find_rule

    about = find_rule(RULES, name).about
    return f"{about.code} {about.name}: {about.summary}\n\n{about.explanation}\n"


def _verdicts(targets: Targets, tasks: list[CheckTask], jobs: int) -> Verdicts:
    from effsparse_cli.checks.rules import RULES
    from effsparse_cli.commands.steps.check_model import judge_all

    doing = f"checking {len(tasks)} models" if len(tasks) != 1 else f"checking {tasks[0].model.name}"
    with judge_all(tasks, jobs) as judged, progress(doing):
        found = list(judged)
    missing = [Verdict(name, problem=problem, problem_code=UNREADABLE) for name, problem in targets.empty]
    return Verdicts((*found, *missing), {code: rule.about for code, rule in RULES.items()}, __version__)


def _write_baseline(verdicts: Verdicts, file: Path) -> None:
    from effsparse_cli.checks.baseline import baseline_text

    emit(baseline_text([(v.model, v.analysis) for v in verdicts.models if v.analysis is not None], file), file)


def _step_summary(verdicts: Verdicts) -> None:
    """GitHub shows what is appended to this file on the page of the run."""
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if not file:
        return
    try:
        with open(file, "a", encoding="utf-8", newline="\n") as summary:
            summary.write(FORMATS["markdown"](verdicts) + "\n")
    except OSError as error:
        note(f"the step summary {file} cannot be written: {error.strerror or error}")
