"""`effsparse check`: check models against bounds, claims and baselines, and set the exit code."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import OptionInfo

from effsparse_cli.checks.rules import RULES as CODES
from effsparse_cli.checks.verdicts import UNREADABLE, Verdict, Verdicts
from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import execution as e
from effsparse_cli.commands.options.bounds import with_bounds
from effsparse_cli.commands.options.load import LoadArguments, with_load_arguments
from effsparse_cli.commands.options.values import split_names
from effsparse_cli.commands.shared.output import emit, note
from effsparse_cli.commands.shared.pages import Open, check_page, open_page
from effsparse_cli.execution.choose import LOCAL, build_engine
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.formatting import plural
from effsparse_cli.progress import step
from effsparse_cli.report.findings import FORMATS

if TYPE_CHECKING:
    from effsparse_cli.checks.search import ModelSearch
    from effsparse_cli.commands.steps.check_model import CheckTask
    from effsparse_cli.execution.engine import Engine

EXAMPLES = """\
Examples:
effsparse check model.onnx --min-effective 0.99 --max-gap 0.005
effsparse check models/ --format junit -o effsparse.xml
effsparse check models/ --format html -o check.html
effsparse check model.pt2 --baseline baseline.json
effsparse check --explain EFF004

Exit codes: 0 all models pass; 1 a rule is violated; 2 usage error; 3 a file cannot be read or nothing was checked.

The exit code is the highest of all models.
"""

complete_rules = o.complete_list(CODES)
REQUIRE, RULES, COMPARE = "Requirements", "Rules", "Baselines"


def requirement(flag: str, *, help: str, metavar: str = "") -> OptionInfo:
    return o.option(flag, help=help, panel=REQUIRE, metavar=metavar)


Models = Annotated[
    list[str] | None,
    typer.Argument(
        help="Model files, folders or patterns.", metavar="MODEL...", show_default="paths in the project file"
    ),
]
Connected = Annotated[
    bool | None,
    o.option(
        "--connected/--no-connected", help="Require a path from input to output.", panel=REQUIRE, default="connected"
    ),
]
ClaimOption = Annotated[str | None, requirement("--claim", help="Claimed direct sparsity.", metavar="0.99")]
Pattern = Annotated[str | None, requirement("--pattern", help="N:M or block pattern of every layer.", metavar="2:4")]
StrictMasks = Annotated[bool | None, requirement("--strict-masks", help="Require masked weights to be zero.")]
ClaimsOption = Annotated[
    str | None,
    o.option(
        "--claims",
        help="Claims to enforce: declared ones, or all, including those in prose and names.",
        panel=REQUIRE,
        metavar="declared|all",
        default="declared",
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    o.option("--exclude", help="Files and folders to skip in folders (* and ?).", panel=RULES, metavar="PATTERN"),
]
MemoryLimit = Annotated[
    str | None,
    o.option(
        "--memory-limit",
        help="Memory limit per model.",
        panel=e.EXECUTE,
        metavar="4GB",
        default="2 GB plus 6 times its size",
    ),
]
TimeLimit = Annotated[
    float | None,
    o.number(
        "--time-limit",
        help="CPU time limit per model, in seconds.",
        panel=e.EXECUTE,
        metavar="60",
        example="60",
        whole=False,
        default="30, plus 1 per MB",
    ),
]
Select = Annotated[
    list[str] | None,
    o.option(
        "--select",
        help="Rules to run, by code or name.",
        panel=RULES,
        metavar="EFF001,...",
        default="all",
        complete=complete_rules,
    ),
]
Ignore = Annotated[
    list[str] | None,
    o.option(
        "--ignore",
        help="Rules to skip, by code or name.",
        panel=RULES,
        metavar="EFF011,...",
        complete=complete_rules,
    ),
]
Explain = Annotated[
    str | None,
    o.option("--explain", help="Explain a rule and exit.", panel=RULES, metavar="EFF004", complete=complete_rules),
]
ConfigFile = Annotated[
    Path | None,
    o.option(
        "--config",
        help="Project file.",
        panel=RULES,
        metavar="FILE",
        default="nearest effsparse.toml or pyproject.toml",
    ),
]
BaselineFile = Annotated[
    Path | None,
    o.option("--baseline", help="Fail if a model is worse than in this baseline.", panel=COMPARE, metavar="FILE"),
]
WriteBaseline = Annotated[
    Path | None,
    o.option("--write-baseline", help="Save the counts of all models as a baseline.", panel=COMPARE, metavar="FILE"),
]
Format = Annotated[str, o.format_choice(FORMATS)]


@with_load_arguments
@with_bounds(panel=REQUIRE)
def check(
    load_arguments: LoadArguments,
    bounds: dict[str, Any],
    models: Models = None,
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
    open: Open = False,
    count_embeddings: o.CountEmbeddings = False,
    claims: ClaimsOption = None,
    exclude: ExcludeOption = None,
    jobs: e.Jobs = None,
    engine: e.EngineName = LOCAL,
    address: e.Address = "",
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
) -> None:
    """Fail if a model does not meet its sparsity claims."""
    if explain is not None:
        emit(_explanation(explain), None)
        return
    check_page(format, output, {"--open": open})
    from effsparse_cli.checks.keys import LOAD_KEYS, MODEL_KEYS

    values: dict[str, Any] = {
        **bounds,
        "connected": connected,
        "claim": claim,
        "pattern": pattern,
        "strict-masks": strict_masks,
        "select": split_names(select) or None,
        "ignore": split_names(ignore) or None,
        "count-embeddings": count_embeddings or None,
        "claims": claims,
        "memory-limit": memory_limit,
        "time-limit": time_limit,
    }
    values |= {key: getattr(load_arguments, key.replace("-", "_")) or None for key in LOAD_KEYS}

    from effsparse_cli.commands.shared.project import find_project
    from effsparse_cli.commands.steps.check_pages import plan_pages
    from effsparse_cli.commands.steps.check_tasks import baseline_file, build_tasks, find_models

    given = {key: MODEL_KEYS[key](value, f"--{key}") for key, value in values.items() if value is not None}
    runner = build_engine(engine, address=address, jobs=jobs)
    project = find_project(Path.cwd(), config)
    compared = baseline_file(baseline, project, write_baseline, load_arguments.trust)
    search = find_models(models, project, (*split_names(exclude), *project.check.get("exclude", ())), load_arguments)
    inputs = [*search.models, project.file, compared, load_arguments.masks]
    check_outputs({"-o": output, "--write-baseline": write_baseline}, inputs)
    tasks = build_tasks(search, project, given, load_arguments.trust, compared)
    # A device or pipe has no folder beside it.
    with_pages = format == "html" and output is not None and (output.is_file() or not output.exists())
    with plan_pages(output, search.models, inputs) if output and with_pages else nullcontext() as pages:
        verdicts = _verdicts(search, pages.assign(tasks) if pages else tasks, runner)
        if write_baseline is not None:
            _write_baseline(verdicts, write_baseline)
        if pages:
            from effsparse_cli.report.html.check import render

            emit(render(verdicts, pages.publish(verdicts.models)), output)
        else:
            emit(FORMATS[format](verdicts), output)
    if open:
        open_page(output)
    if format == "github":
        _step_summary(verdicts)
    raise typer.Exit(verdicts.code)


def _explanation(name: str) -> str:
    from effsparse_cli.checks.judge import find_rule
    from effsparse_cli.checks.rules import load_rules

    about = find_rule(load_rules(), name).about
    return f"{about.code} {about.name}: {about.summary}\n\n{about.explanation}\n"


def _verdicts(search: ModelSearch, tasks: list[CheckTask], engine: Engine) -> Verdicts:
    from effsparse_cli.api.checking import build_report
    from effsparse_cli.commands.steps.check_model import judge_all

    doing = f"checking {plural(len(tasks), 'model')}" if len(tasks) != 1 else f"checking {tasks[0].model.name}"
    verdicts = []
    with judge_all(tasks, engine) as judged, step(doing, len(tasks)) as advance:
        for verdict in judged:
            verdicts.append(verdict)
            advance(1)
    missing = [Verdict(name, problem=problem, problem_code=UNREADABLE) for name, problem in search.empty]
    return build_report([*verdicts, *missing])


def _write_baseline(verdicts: Verdicts, file: Path) -> None:
    from effsparse_cli.checks.baseline import baseline_text

    measured = [(verdict.model, verdict.analysis) for verdict in verdicts.models if verdict.analysis is not None]
    emit(baseline_text(measured, file), file)
    note(f"counts of {plural(len(measured), 'model')} written to {file}")


def _step_summary(verdicts: Verdicts) -> None:
    """Append a summary to the file that GitHub shows on the page of the run."""
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if not file:
        return
    try:
        with open(file, "a", encoding="utf-8", newline="\n") as summary:
            summary.write(FORMATS["markdown"](verdicts) + "\n")
    except OSError as error:
        note(f"the step summary {file} cannot be written: {error.strerror or error}")
