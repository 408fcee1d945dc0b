"""Many models in, one verdict each out, in their order: each read, measured and judged in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.context import BaseContext
from pathlib import Path

from effsparse_cli import files
from effsparse_cli.checks.baseline import Entry
from effsparse_cli.checks.settings import Settings
from effsparse_cli.checks.verdicts import UNREADABLE, Verdict
from effsparse_cli.errors import EffsparseError
from effsparse_cli.execution.workers import Failure, Limits, run_tasks, too_much
from effsparse_cli.formats.options import LoadOptions

BUG = 101
USUAL = Limits(memory=4 << 30, seconds=120)
LOADED_ONCE = [
    "effsparse_cli.cli",
    "effsparse_cli.commands.check",
    "effsparse_cli.analysis.measure",
    "effsparse_cli.checks.judge",
    "effsparse_cli.formats.onnx",
]
LOADED_TOO = ["torch", "effsparse_cli.formats.torch", "torch.export", "torch._export", "torch._dynamo"]
"""What processes share if this one has it already."""
OUT_OF_MEMORY = ("can't allocate memory", "bad_alloc", "Unable to allocate")


@dataclass(frozen=True)
class Task:
    """One model and what is asked of it."""

    model: Path
    reading: LoadOptions
    settings: Settings
    baseline: Entry | None = None
    against_baseline: bool = False
    limits: Limits = USUAL


@dataclass(frozen=True)
class Judged:
    """A verdict, and the files that were read for it."""

    verdict: Verdict
    read: dict[files.Identity, Path]


@contextmanager
def judge_all(tasks: Sequence[Task], jobs: int) -> Iterator[Iterator[Verdict]]:
    """Each model is judged in a process of its own, within the limits of its task. The processes end with the block."""
    workers = min(jobs, len(tasks))
    _share_cores(workers)
    made = run_tasks([(task, task.limits) for task in tasks], _judge_recorded, workers, _context(tasks))
    # New interpreters would look for modules in the current folder first, and a pull request could bring some.
    with _environment("PYTHONSAFEPATH", "1"), closing(made) as outcomes:
        yield map(_verdict, tasks, outcomes)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _verdict(task: Task, outcome: Judged | Failure) -> Verdict:
    if isinstance(outcome, Failure):
        return Verdict(str(task.model), problem=outcome.reason, problem_code=UNREADABLE)
    files.note_reads(outcome.read)
    return outcome.verdict


def _judge_recorded(task: Task) -> Judged:
    with files.one_run() as record:
        return Judged(judge_model(task), record.read)


def judge_model(task: Task) -> Verdict:
    """Whatever goes wrong with one model is said of that model; the others are judged all the same."""
    from effsparse_cli.analysis.measure import analyze_graph
    from effsparse_cli.analysis.opening import open_model
    from effsparse_cli.checks.claims import claims_beside
    from effsparse_cli.checks.judge import judge
    from effsparse_cli.checks.rule import Subject

    name, settings = str(task.model), task.settings
    try:
        graph, _ = open_model(task.model, task.reading)
        analysis = analyze_graph(graph, count_embeddings=settings.count_embeddings)
        claims = claims_beside(task.model)
        subject = Subject(graph, analysis, settings, claims, task.baseline, task.against_baseline)
        return judge(name, subject)
    except EffsparseError as error:
        # The verdict has the name already.
        said = str(error).removeprefix(name).lstrip(": ")
        return Verdict(name, problem=said, problem_code=error.exit_code)
    except Exception as error:
        if _is_out_of_memory(error):
            return Verdict(name, problem=too_much(task.limits), problem_code=UNREADABLE)
        if os.environ.get("EFFSPARSE_DEBUG"):
            raise
        said = f"this is a bug in effsparse ({type(error).__name__}: {error}); please report it"
        return Verdict(name, problem=said, problem_code=BUG)


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(said in str(error) for said in OUT_OF_MEMORY)


def _share_cores(workers: int) -> None:
    threads = str(max(1, (os.cpu_count() or 1) // max(workers, 1)))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, threads)  # read once, when numpy and torch are loaded


def _context(tasks: Sequence[Task]) -> BaseContext:
    """One process is forked from this one, which is quick, if no other thread could hold a lock meanwhile; macOS starts
    threads of its own. Several are forks of a server that has loaded what every model needs."""
    alone = len(tasks) < 2 and threading.active_count() == 1
    if alone and sys.platform.startswith("linux") and "torch" not in sys.modules:
        for name in LOADED_ONCE:
            import_module(name)
        return multiprocessing.get_context("fork")
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    shared = [name for name in LOADED_TOO if name in sys.modules]
    if sum(task.model.suffix != ".onnx" for task in tasks) > 1:
        shared += ["effsparse_cli.formats.torch"]
    context.set_forkserver_preload([*LOADED_ONCE, *shared])
    return context
