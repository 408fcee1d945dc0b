"""Run a function on many independent tasks, each in its own worker process, and return the results in order.

`run_tasks` is the whole interface: it knows nothing of models, and another way to run tasks needs only the same
signature.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import TypeVar, cast

from effsparse_cli.execution.worker import Failure, Limits, Worker

Task = TypeVar("Task")
Result = TypeVar("Result")

POLL_SECONDS = 0.05


def run_tasks(
    tasks: Sequence[Task],
    function: Callable[[Task], Result],
    limits: Sequence[Limits],
    workers: int,
    preload: Sequence[str] = (),
) -> Generator[Result | Failure, None, None]:
    """Yield the result of each task, or a `Failure` if its worker exceeded its limits, crashed or was killed.

    `function` must be importable by name, and tasks and results must pickle. `preload` names modules that every task
    needs: they are imported once and shared by the workers. Closing the generator ends all workers.
    """
    workers = min(workers, len(tasks))
    _share_cores(workers)
    # Chosen here, not on the first result: the caller may start threads in between.
    context = _context(len(tasks), preload)
    return _results(deque(enumerate(zip(tasks, limits, strict=True))), function, workers, context)


def _results(
    waiting: deque[tuple[int, tuple[Task, Limits]]],
    function: Callable[[Task], Result],
    workers: int,
    context: BaseContext,
) -> Generator[Result | Failure, None, None]:
    running: dict[int, Worker] = {}
    done: dict[int, Result | Failure] = {}
    # New interpreters would import from the current folder first, and a pull request could add modules there.
    with _environment("PYTHONSAFEPATH", "1"):
        try:
            for position in range(len(waiting)):
                while position not in done:
                    while waiting and len(running) < workers:
                        number, (task, limits) = waiting.popleft()
                        running[number] = Worker(task, function, limits, context)
                    wait([worker.results for worker in running.values()], POLL_SECONDS)
                    for number, worker in list(running.items()):
                        outcome = worker.poll()
                        if outcome is not None:
                            done[number] = cast("Result | Failure", outcome)
                            running.pop(number).end()
                yield done.pop(position)
        finally:
            for worker in running.values():
                worker.end()


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


def _share_cores(workers: int) -> None:
    threads = str(max(1, (os.cpu_count() or 1) // max(workers, 1)))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, threads)  # read once, when numpy and torch are loaded


def _context(tasks: int, preload: Sequence[str]) -> BaseContext:
    """Choose how processes start. A single task is forked from this process, which is fast, unless another thread could
    hold a lock (torch and macOS start threads of their own). Several are forks of a server that has imported
    `preload`."""
    alone = tasks < 2 and threading.active_count() == 1
    if alone and sys.platform.startswith("linux") and "torch" not in sys.modules:
        for name in preload:
            import_module(name)
        return multiprocessing.get_context("fork")
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    return context
