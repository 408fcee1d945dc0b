"""Many models in, one verdict each out, in their order: read, measured and judged in as many processes as help."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.context import BaseContext
from pathlib import Path

from effsparse_cli.check.baseline import Entry
from effsparse_cli.check.settings import Settings
from effsparse_cli.errors import EffsparseError
from effsparse_cli.load.options import LoadOptions
from effsparse_cli.report.verdicts import UNREADABLE, Verdict

BUG = 101
LOADED_ONCE = ["effsparse_cli.analyze.measure", "effsparse_cli.check.judge", "effsparse_cli.load.onnx"]


@dataclass(frozen=True)
class Task:
    """One model and what is asked of it."""

    model: Path
    reading: LoadOptions
    settings: Settings
    baseline: Entry | None = None
    against_baseline: bool = False


@contextmanager
def judge_all(tasks: Sequence[Task], jobs: int) -> Iterator[Iterator[Verdict]]:
    """Other processes start when this is entered, before the caller has threads, and end when it is left. With one
    job, or one model, everything stays in this process."""
    workers = min(jobs, len(tasks))
    if workers < 2:
        yield map(judge_model, tasks)
        return
    pool = _pool(workers, _quickest())
    try:
        futures = [pool.submit(judge_model, task) for task in tasks]
        yield map(_verdict, tasks, futures)
    finally:
        pool.shutdown(cancel_futures=True)


def _verdict(task: Task, future: Future[Verdict]) -> Verdict:
    try:
        return future.result()
    except BrokenProcessPool:
        # One model's end takes the whole pool along: each that is left gets a process of its own.
        return _alone(task)


def judge_model(task: Task) -> Verdict:
    """Whatever goes wrong with one model is said of that model; the others are judged all the same."""
    from effsparse_cli.analyze.measure import analyze_graph
    from effsparse_cli.check.claims import claims_beside
    from effsparse_cli.check.judge import judge
    from effsparse_cli.check.rule import Subject
    from effsparse_cli.commands.opening import open_model

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
        if os.environ.get("EFFSPARSE_DEBUG"):
            raise
        said = f"this is a bug in effsparse ({type(error).__name__}: {error}); please report it"
        return Verdict(name, problem=said, problem_code=BUG)


def _alone(task: Task) -> Verdict:
    try:
        with _pool(1, _safest()) as pool:
            return pool.submit(judge_model, task).result()
    except BrokenProcessPool:
        said = "the process that read it was ended from outside, most likely because memory ran out"
        return Verdict(str(task.model), problem=said, problem_code=UNREADABLE)


def _pool(workers: int, context: BaseContext) -> ProcessPoolExecutor:
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, threads)  # read once, when numpy and torch are loaded
    return ProcessPoolExecutor(workers, context)


def _quickest() -> BaseContext:
    """A fork has all that is loaded here at once. It would copy the threads of torch or of anybody else in whatever
    state they are, so it is for a process that has none; macOS starts some of its own."""
    if not sys.platform.startswith("linux") or "torch" in sys.modules or threading.active_count() > 1:
        return _safest()
    for name in LOADED_ONCE:
        import_module(name)
    return multiprocessing.get_context("fork")


def _safest() -> BaseContext:
    """Forks of a server that has loaded what every model needs, or else processes from scratch."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED_ONCE)
    return context
