"""Run one task in a separate process, with limits on memory and time.

The operating system enforces the limits where it can; `Worker.poll` checks the rest from outside.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

ELAPSED_PER_CPU_SECOND = 10
"""Elapsed time allowed per second of CPU time: a task may wait for disks and for other tasks."""
RESERVED_BY_LIBRARIES = 8 << 30
"""Address space that libraries reserve without using it, in bytes."""


@dataclass(frozen=True)
class Limits:
    """Memory in bytes and CPU time in seconds; `mapped` bytes of files may be mapped in addition."""

    memory: int
    seconds: float
    mapped: int = 0

    @property
    def memory_exceeded(self) -> str:
        return f"it exceeded the memory limit of {self.memory / 1e9:.3g} GB; --memory-limit allows more"

    @property
    def time_exceeded(self) -> str:
        return f"it exceeded the time limit of {self.seconds:.3g} s; --time-limit allows more"


@dataclass(frozen=True)
class Failure:
    """Why a task has no result."""

    reason: str


class Worker:
    """A process that runs `function(task)` and sends its result through `results`."""

    def __init__(self, task: Any, function: Callable[[Any], Any], limits: Limits, context: BaseContext) -> None:
        self.limits = limits
        self.results, sender = context.Pipe(duplex=False)
        arguments = (sender, function, task, limits)
        self.process: BaseProcess = context.Process(target=_work, args=arguments, daemon=True)  # type: ignore[attr-defined]
        self.process.start()
        sender.close()
        self.deadline = time.monotonic() + ELAPSED_PER_CPU_SECOND * limits.seconds

    def poll(self) -> object:
        """Return the result or a `Failure`; None while the task is running."""
        if self.results.poll():
            try:
                return pickle.loads(self.results.recv_bytes())
            except (EOFError, OSError):
                self.process.join()
                return Failure(_cause_of_death(self.process.exitcode, self.limits))
        if time.monotonic() > self.deadline:
            return Failure(self.limits.time_exceeded)
        if _memory_in_use(self.process.pid or 0) > self.limits.memory:
            return Failure(self.limits.memory_exceeded)
        return None

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.results.close()


def _work(sender: Connection, function: Callable[[Any], Any], task: Any, limits: Limits) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    _limit_this_process(limits)
    sender.send_bytes(pickle.dumps(function(task)))


def _limit_this_process(limits: Limits) -> None:
    """Set the limits that the operating system enforces, even within a loop in C code."""
    try:
        import resource
    except ImportError:
        return
    seconds = math.ceil(time.process_time() + limits.seconds)
    space = _status(os.getpid(), "VmSize") + limits.memory + limits.mapped + RESERVED_BY_LIBRARIES
    for name, amount in (("RLIMIT_CPU", seconds), ("RLIMIT_AS", space), ("RLIMIT_CORE", 0)):
        with suppress(AttributeError, ValueError, OSError):
            which = getattr(resource, name)
            hard = resource.getrlimit(which)[1]
            resource.setrlimit(which, (amount if hard < 0 else min(amount, hard), hard))


def _memory_in_use(process: int) -> int:
    """Return the memory of a process without mapped files, whose pages the system can take back."""
    return _status(process, "RssAnon", "RssShmem")


def _status(process: int, *fields: str) -> int:
    if not sys.platform.startswith("linux"):
        return 0
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    values = (line.split() for line in lines if line.partition(":")[0] in fields)
    return sum(int(words[1]) << 10 for words in values)


def _cause_of_death(code: int | None, limits: Limits) -> str:
    if code is None or code >= 0:
        return f"the process that read it ended with exit code {code}"
    if code == -getattr(signal, "SIGXCPU", 0):
        return limits.time_exceeded
    if code == -getattr(signal, "SIGKILL", 0):
        return "the process that read it was killed, most likely because memory ran out"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the process that read it crashed ({name})"
