"""Run one task in a separate process of this machine.

The operating system enforces limits where it can; `Worker.poll` checks the rest from outside.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from effsparse_cli.execution.engine import Failure, Limits, TaskProgress
from effsparse_cli.execution.inside import call, read_status

ELAPSED_PER_CPU_SECOND = 10
"""Elapsed time allowed per second of CPU time: a task may wait for disks and for other tasks."""
CLEAN_UP_SECONDS = 5.0
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Read by numpy and torch when they are loaded."""
Show = Callable[[TaskProgress], None]


class Finished(NamedTuple):
    """The last message of a worker: its result, or a `Failure`."""

    outcome: Any


class Worker:
    """A process that runs `function(task)` and sends its progress and its result through `messages`."""

    def __init__(
        self,
        task: Any,
        function: Callable[[Any], Any],
        *,
        limits: Limits | None,
        threads: int,
        context: BaseContext,
        show: Show | None,
    ) -> None:
        self.limits, self.show = limits, show
        self.messages, sender = context.Pipe(duplex=False)
        arguments = (sender, function, task, limits, threads, show is not None)
        self.process: BaseProcess = context.Process(target=_work, args=arguments, daemon=True)  # type: ignore[attr-defined]
        needs_main = context.get_start_method() == "fork" or b"__main__" in pickle.dumps((function, task))
        with nullcontext() if needs_main else _main_hidden():
            self.process.start()
        sender.close()
        allowed = math.inf if limits is None else ELAPSED_PER_CPU_SECOND * limits.seconds
        self.deadline = time.monotonic() + allowed

    def poll(self) -> Finished | None:
        """Return the outcome, or None while the task is running."""
        ended = not self.process.is_alive()  # asked first: what it sent before is still read
        while self.messages.poll():
            try:
                message = pickle.loads(self.messages.recv_bytes())
            except (EOFError, OSError):
                self.process.join()
                return Finished(Failure(_cause_of_death(self.process.exitcode, self.limits)))
            if isinstance(message, Finished):
                return message
            if self.show is not None:
                self.show(message)
        if ended:  # but a process that it started still has its end of the pipe
            return Finished(Failure(_cause_of_death(self.process.exitcode, self.limits)))
        if self.limits is None:
            return None
        if time.monotonic() > self.deadline:
            return Finished(Failure(self.limits.time_exceeded))
        if _memory_in_use(self.process.pid or 0) > self.limits.memory:
            return Finished(Failure(self.limits.memory_exceeded))
        return None

    def end(self, *, finished: bool = False) -> None:
        """End the process at once; after its last message, let it clean up first, unless that takes long."""
        if finished:
            self.process.join(CLEAN_UP_SECONDS)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.messages.close()


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Keep a new process from importing the main module again, which takes longer than a short task. A user's script
    then needs no `if __name__ == "__main__"` either."""
    main = vars(sys.modules["__main__"])
    saved: dict[str, Any] = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main |= saved


def _work(
    sender: Connection,
    function: Callable[[Any], Any],
    task: Any,
    limits: Limits | None,
    threads: int,
    with_progress: bool,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if threads:
        os.environ |= dict.fromkeys(THREADS, str(threads))  # a server of processes may be older than this number
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(threads)

    def send(message: object) -> None:
        sender.send_bytes(pickle.dumps(message))

    send(Finished(call(function, task, limits, send if with_progress else None)))


def _end_with_parent() -> None:
    """End this process if its parent was killed: another run may continue its tasks."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _memory_in_use(process: int) -> int:
    """Return the memory of a process without mapped files, whose pages the system can take back."""
    return read_status(process, "RssAnon", "RssShmem")


def _cause_of_death(code: int | None, limits: Limits | None) -> str:
    if code is None or code >= 0:
        return f"the process that ran it ended with exit code {code}"
    if limits is not None and code == -getattr(signal, "SIGXCPU", 0):
        return limits.time_exceeded
    if code == -getattr(signal, "SIGKILL", 0):
        return "the process that ran it was killed, most likely because memory ran out"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the process that ran it crashed ({name})"
