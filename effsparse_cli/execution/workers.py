"""Tasks in, results out in their order: each task runs in a process of its own, with a limit on memory and time.

A process that exceeds a limit, crashes or is killed gives a `Failure` in the place of its result; the others go on.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

Task = TypeVar("Task")
Result = TypeVar("Result")

LOOK_EVERY = 0.05
PATIENCE = 10
"""Seconds on the clock per second of processor time that a task may take: it may wait for disks and for other tasks."""
LIBRARIES = 8 << 30
"""Address space that libraries reserve without using it, on top of a task's memory."""


@dataclass(frozen=True)
class Limits:
    """Bytes of memory, and seconds of processor time; `mapped` bytes of files may be mapped beside the memory."""

    memory: int
    seconds: float
    mapped: int = 0


@dataclass(frozen=True)
class Failure:
    """Why there is no result."""

    reason: str


@dataclass(frozen=True)
class _Running(Generic[Task]):
    process: BaseProcess
    results: Connection
    limits: Limits
    deadline: float


def run_tasks(
    tasks: Sequence[tuple[Task, Limits]], work: Callable[[Task], Result], workers: int, context: BaseContext
) -> Generator[Result | Failure, None, None]:
    waiting = deque(enumerate(tasks))
    running: dict[int, _Running[Task]] = {}
    done: dict[int, Result | Failure] = {}
    try:
        for position in range(len(tasks)):
            while position not in done:
                while waiting and len(running) < workers:
                    number, (task, limits) = waiting.popleft()
                    running[number] = _start(task, limits, work, context)
                wait([each.results for each in running.values()], LOOK_EVERY)
                for number, each in list(running.items()):
                    outcome = _look(each)
                    if outcome is not None:
                        done[number] = cast("Result | Failure", outcome)
                        _end(running.pop(number))
            yield done.pop(position)
    finally:
        for each in running.values():
            _end(each)


def _start(task: Task, limits: Limits, work: Callable[[Task], Any], context: BaseContext) -> _Running[Task]:
    results, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, work, task, limits), daemon=True)  # type: ignore[attr-defined]
    process.start()
    sender.close()
    return _Running(process, results, limits, time.monotonic() + PATIENCE * limits.seconds)


def _work(sender: Connection, work: Callable[[Any], Any], task: Any, limits: Limits) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    _limit(limits)
    sender.send_bytes(pickle.dumps(work(task)))


def _look(running: _Running[Any]) -> object:
    """The result or the failure, if it is known by now."""
    if running.results.poll():
        try:
            return pickle.loads(running.results.recv_bytes())
        except (EOFError, OSError):
            running.process.join()
            return Failure(_death(running.process.exitcode, running.limits))
    if time.monotonic() > running.deadline:
        return Failure(_too_long(running.limits))
    if _memory(running.process.pid or 0) > running.limits.memory:
        return Failure(too_much(running.limits))
    return None


def _end(running: _Running[Any]) -> None:
    if running.process.is_alive():
        running.process.kill()
    running.process.join()
    running.results.close()


def _limit(limits: Limits) -> None:
    """What the system enforces itself, in the process that it is for: also within a loop of C code."""
    try:
        import resource
    except ImportError:
        return
    seconds = math.ceil(time.process_time() + limits.seconds)
    space = _status(os.getpid(), "VmSize") + limits.memory + limits.mapped + LIBRARIES
    for name, amount in (("RLIMIT_CPU", seconds), ("RLIMIT_AS", space), ("RLIMIT_CORE", 0)):
        with suppress(AttributeError, ValueError, OSError):
            which = getattr(resource, name)
            hard = resource.getrlimit(which)[1]
            resource.setrlimit(which, (amount if hard < 0 else min(amount, hard), hard))


def _memory(process: int) -> int:
    """Without the pages of mapped files, which the system takes back when it needs them."""
    return _status(process, "RssAnon", "RssShmem")


def _status(process: int, *fields: str) -> int:
    if not sys.platform.startswith("linux"):
        return 0
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    found = (line.split() for line in lines if line.partition(":")[0] in fields)
    return sum(int(words[1]) << 10 for words in found)


def too_much(limits: Limits) -> str:
    return f"it exceeded the memory limit of {limits.memory / 1e9:.3g} GB; --memory-limit allows more"


def _too_long(limits: Limits) -> str:
    return f"it exceeded the time limit of {limits.seconds:.3g} s; --time-limit allows more"


def _death(code: int | None, limits: Limits) -> str:
    if code is None or code >= 0:
        return f"the process that read it ended with exit code {code}"
    if code == -getattr(signal, "SIGXCPU", 0):
        return _too_long(limits)
    if code == -getattr(signal, "SIGKILL", 0):
        return "the process that read it was ended from outside, most likely because memory ran out"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the process that read it crashed ({name})"
