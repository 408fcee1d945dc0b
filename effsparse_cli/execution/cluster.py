"""Run tasks on a Ray cluster: one Ray task each, placed and retried by Ray. Ray is imported here only."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from effsparse_cli.errors import EffsparseError, UsageError, first_line
from effsparse_cli.execution.engine import Failure, Limits, ShowProgress, TaskProgress
from effsparse_cli.execution.inside import Send, call

Task = TypeVar("Task")
Result = TypeVar("Result")

MAX_RETRIES = 3
"""How often Ray repeats a task whose process or node died."""
WAIT_SECONDS = 0.2
CONNECT_SECONDS = 10
MOST_AT_ONCE = 1000


@dataclass(frozen=True)
class RayEngine:
    """A cluster by its address ("auto" for the one that this machine belongs to), or one started on this machine if
    there is none. Every task reserves a number of CPUs and GPUs."""

    address: str = ""
    cpus: float = 1
    gpus: float = 0

    def run(
        self,
        tasks: Sequence[Task],
        function: Callable[[Task], Result],
        *,
        limits: Sequence[Limits] | None = None,
        preload: Sequence[str] = (),
        show: ShowProgress | None = None,
    ) -> Generator[tuple[int, Result | Failure], None, None]:
        """Run all tasks: see `Engine`. Processes are reused, except for tasks with limits, which they would keep."""
        ray = import_ray()
        ours = not ray.is_initialized()
        if ours:
            self._connect(ray)
        pending: dict[Any, int] = {}
        try:
            board = _start_board(ray) if show is not None else None
            here = os.getcwd()
            options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": MAX_RETRIES}
            remote = ray.remote(**options, **({"max_calls": 1} if limits else {}))(_run)
            for i, task in enumerate(tasks):
                pending[remote.remote(function, task, limits[i] if limits else None, board, i, here)] = i
            while pending:
                most = min(len(pending), MOST_AT_ONCE)
                done, _ = ray.wait(list(pending), num_returns=most, timeout=WAIT_SECONDS)
                if show is not None:
                    for position, progress in _read_board(ray, board):
                        show(position, progress)
                for reference in done:
                    yield pending.pop(reference), _outcome(ray, reference)
        finally:
            if ray.is_initialized():  # otherwise, Ray would start a cluster to cancel tasks on
                for reference in pending:
                    with suppress(Exception):
                        ray.cancel(reference, force=True)
                if ours:
                    ray.shutdown()

    def _connect(self, ray: Any) -> None:
        try:
            host, _, port = self.address.rpartition(":")
            if port.isdecimal() and "://" not in host:  # Ray itself waits for minutes
                socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
            with _handlers_kept():
                ray.init(
                    address=self.address or None,
                    include_dashboard=None if self.address else False,
                    log_to_driver=False,
                    logging_level="error",
                )
        except (OSError, OverflowError, ValueError, RuntimeError) as error:
            where = f"--address {self.address}" if self.address else "--engine ray"
            raise UsageError(f"{where}: no connection to a Ray cluster: {first_line(error)}") from error


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM, for which Ray would print a stack trace."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def import_ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise UsageError("--engine ray needs Ray, which is not installed: pip install ray") from error


def _run(
    function: Callable[[Any], Any], task: Any, limits: Limits | None, board: Any, position: int, folder: str
) -> Any:
    """Run a task in the folder of the command, since it may have relative paths. Otherwise it would be the one that the
    node was started in."""
    with suppress(OSError):  # another machine may not have it
        os.chdir(folder)
    send: Send | None = None
    if board is not None:

        def send(progress: TaskProgress) -> None:
            board.put.remote(position, progress)

    return call(function, task, limits, send)


def _outcome(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.as_instanceof_cause()
        if isinstance(cause, EffsparseError):
            raise cause from error
        return Failure(f"{type(error.cause).__name__}: {first_line(error.cause)}")
    except ray.exceptions.RayError as error:
        return Failure(f"Ray could not run it ({type(error).__name__}): {first_line(error)}")


class _Board:
    """Progress of tasks until the driver reads it."""

    def __init__(self) -> None:
        self.latest: dict[int, TaskProgress] = {}

    def put(self, position: int, progress: TaskProgress) -> None:
        self.latest[position] = progress

    def take(self) -> list[tuple[int, TaskProgress]]:
        taken, self.latest = list(self.latest.items()), {}
        return taken


def _start_board(ray: Any) -> Any:
    """Start the board on the driver's node, so that it lives as long as the driver."""
    strategies = import_module("ray.util.scheduling_strategies")
    here = strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(_Board).remote()


def _read_board(ray: Any, board: Any) -> list[tuple[int, TaskProgress]]:
    with suppress(ray.exceptions.RayError):
        taken: list[tuple[int, TaskProgress]] = ray.get(board.take.remote())
        return taken
    return []
