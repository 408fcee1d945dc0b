"""Run tasks on this machine, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any, ClassVar, TypeVar

from effsparse_cli.execution.engine import Failure, Limits, ShowProgress
from effsparse_cli.execution.worker import THREADS, Worker

Task = TypeVar("Task")
Result = TypeVar("Result")

POLL_SECONDS = 0.05


@dataclass(frozen=True)
class LocalEngine:
    """Up to `workers` processes at a time, each with a number of `threads`; 0 gives each an equal share of the
    cores."""

    workers: int
    threads: int = 0
    gpus: ClassVar[float] = 0

    def run(
        self,
        tasks: Sequence[Task],
        function: Callable[[Task], Result],
        *,
        limits: Sequence[Limits] | None = None,
        preload: Sequence[str] = (),
        show: ShowProgress | None = None,
    ) -> Generator[tuple[int, Result | Failure], None, None]:
        """Run all tasks: see `Engine`. Modules in `preload` are imported once and shared by the processes."""
        workers = max(1, min(self.workers, len(tasks)))
        variables = self._variables(workers)
        # Chosen here, not on the first result: the caller may start threads in between.
        with _environment(variables):
            context = _context(len(tasks), preload)
        waiting = deque((i, task, limits[i] if limits else None) for i, task in enumerate(tasks))

        def start(position: int, task: Task, limit: Limits | None) -> Worker:
            shown = partial(show, position) if show is not None else None
            return Worker(task, function, limits=limit, threads=self.threads, context=context, show=shown)

        return _outcomes(waiting, start, workers, variables)

    def _variables(self, workers: int) -> dict[str, str]:
        """Return the environment of new processes: numpy and torch read the number of threads when they are loaded.
        With a safe path, interpreters do not import from the current folder, where a pull request could add modules."""
        share = str(self.threads or max(1, (os.cpu_count() or 1) // workers))
        threads = {name: share for name in THREADS if self.threads or name not in os.environ}
        return {"PYTHONSAFEPATH": "1", **threads}


def _outcomes(
    waiting: deque[tuple[int, Any, Limits | None]],
    start: Callable[..., Worker],
    workers: int,
    variables: Mapping[str, str],
) -> Generator[tuple[int, Any], None, None]:
    running: dict[int, Worker] = {}
    with _environment(variables):
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    position, task, limit = waiting.popleft()
                    running[position] = start(position, task, limit)
                wait([worker.messages for worker in running.values()], POLL_SECONDS)
                for position, worker in list(running.items()):
                    finished = worker.poll()
                    if finished is not None:
                        running.pop(position).end(finished=not isinstance(finished.outcome, Failure))
                        yield position, finished.outcome
        finally:
            for worker in running.values():
                worker.end()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within the block."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


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
    resource_tracker.ensure_running()  # it unblocks SIGINT, so it comes first
    with _interrupts_blocked():
        forkserver.ensure_running()
    return context


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes in this block that Ctrl-C does not interrupt: this process ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
