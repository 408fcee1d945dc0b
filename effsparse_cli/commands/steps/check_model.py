"""The task that `effsparse check` runs for each model in a worker process: read it, measure it, judge it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from effsparse_cli import files
from effsparse_cli.checks.baseline import BaselineModel
from effsparse_cli.checks.settings import Settings
from effsparse_cli.checks.verdicts import UNREADABLE, Verdict
from effsparse_cli.commands.shared.output import emit
from effsparse_cli.errors import EffsparseError
from effsparse_cli.execution.engine import Engine, Failure, Limits, in_order
from effsparse_cli.formats import LoadOptions, open_model_file

BUG = 101
DEFAULT_LIMITS = Limits(memory=4 << 30, seconds=120)
PRELOADED = [
    "effsparse_cli.cli",
    "effsparse_cli.commands.check",
    "effsparse_cli.analysis.measure",
    "effsparse_cli.checks.judge",
    "effsparse_cli.formats.onnx.model_file",
]
PRELOADED_FOR_PAGES = ["effsparse_cli.report.html.page", "jinja2"]
SHARED_IF_LOADED = ["torch", "effsparse_cli.formats.torch", "torch.export", "torch._export", "torch._dynamo"]
OUT_OF_MEMORY = ("can't allocate memory", "bad_alloc", "Unable to allocate")


@dataclass(frozen=True)
class CheckTask:
    """One model, how to read it, what must hold for it, and the file to write the HTML page of its report to."""

    model: Path
    options: LoadOptions
    settings: Settings
    baseline: BaselineModel | None = None
    against_baseline: bool = False
    limits: Limits = DEFAULT_LIMITS
    page: Path | None = None


@dataclass(frozen=True)
class CheckResult:
    """A verdict, and the files that were read for it."""

    verdict: Verdict
    read: dict[files.Identity, Path]


@contextmanager
def judge_all(tasks: Sequence[CheckTask], engine: Engine) -> Iterator[Iterator[Verdict]]:
    """Yield one verdict per task, in order. Leaving the block ends all workers."""
    limits = [task.limits for task in tasks]
    with closing(engine.run(tasks, _judge_recorded, limits=limits, preload=_preloaded(tasks))) as outcomes:
        yield map(_verdict, tasks, in_order(outcomes))


def _preloaded(tasks: Sequence[CheckTask]) -> list[str]:
    shared = [name for name in SHARED_IF_LOADED if name in sys.modules]
    if sum(task.model.suffix != ".onnx" for task in tasks) > 1:
        shared += ["effsparse_cli.formats.torch"]
    if any(task.page for task in tasks):
        shared += PRELOADED_FOR_PAGES
    return [*PRELOADED, *shared]


def _verdict(task: CheckTask, outcome: CheckResult | Failure) -> Verdict:
    if isinstance(outcome, Failure):
        return Verdict(str(task.model), problem=outcome.reason, problem_code=UNREADABLE)
    files.note_reads(outcome.read)
    return outcome.verdict


def _judge_recorded(task: CheckTask) -> CheckResult:
    with files.one_run() as record:
        return CheckResult(judge_model(task), record.read)


def judge_model(task: CheckTask) -> Verdict:
    """Read, measure and judge one model. Errors become part of its verdict."""
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.analysis.sizes import open_graph
    from effsparse_cli.checks.claims import claims_beside
    from effsparse_cli.checks.judge import judge
    from effsparse_cli.checks.rule import Subject
    from effsparse_cli.report.analysis.report import Report

    name, settings = str(task.model), task.settings
    try:
        graph, _ = open_graph(open_model_file(task.model, task.options))
        pages = task.page is not None
        analysis = analyze_graph(graph, count_embeddings=settings.count_embeddings, patterns=pages, pictures=pages)
        if task.page is not None:
            emit(Report.of(analysis, model=name).to_html(), task.page)
            analysis = replace(analysis, network=None, pictures={})
        subject = Subject(
            graph=graph,
            analysis=analysis,
            settings=settings,
            claims=claims_beside(task.model),
            baseline=task.baseline,
            against_baseline=task.against_baseline,
        )
        return judge(name, subject)
    except EffsparseError as error:
        # The verdict has the name already.
        message = str(error).removeprefix(name).lstrip(": ")
        return Verdict(name, problem=message, problem_code=error.exit_code)
    except Exception as error:
        if _is_out_of_memory(error):
            return Verdict(name, problem=task.limits.memory_exceeded, problem_code=UNREADABLE)
        if os.environ.get("EFFSPARSE_DEBUG"):
            raise
        message = f"this is a bug in effsparse ({type(error).__name__}: {error}); please report it"
        return Verdict(name, problem=message, problem_code=BUG)


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(text in str(error) for text in OUT_OF_MEMORY)
