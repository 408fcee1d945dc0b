"""What happens around a task in the process that runs it: limits of the operating system, and progress that is sent
out."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from effsparse_cli.execution.engine import Limits, TaskProgress
from effsparse_cli.progress import Advance, Display, Step, shown_by

RESERVED_BY_LIBRARIES = 8 << 30
"""Address space that libraries reserve without using it, in bytes."""
SECONDS_BETWEEN_MESSAGES = 0.2

Send = Callable[[TaskProgress], None]


def call(function: Callable[[Any], Any], task: Any, limits: Limits | None, send: Send | None) -> Any:
    """Call the function within limits, with its steps sent out."""
    if limits is not None:
        limit_this_process(limits)
    with shown_by(sending(send)) if send is not None else nullcontext():
        return function(task)


def sending(send: Send) -> Display:
    """Return a display that sends what it would show, a few times per second at most."""
    names: list[str] = []

    @contextmanager
    def show(step: Step) -> Iterator[Advance]:
        done, sent, level = 0, 0.0, len(names)
        description = ": ".join([*names, step.description])

        def advance(amount: int) -> None:
            nonlocal done, sent
            done += amount
            if time.monotonic() - sent >= SECONDS_BETWEEN_MESSAGES:
                sent = time.monotonic()
                send(TaskProgress(description, done, step.total, level))

        names.append(step.description)
        try:
            advance(0)
            yield advance
        finally:
            names.pop()

    return show


def limit_this_process(limits: Limits) -> None:
    """Set the limits that the operating system enforces, even within a loop in C code."""
    try:
        import resource
    except ImportError:
        return
    seconds = math.ceil(time.process_time() + limits.seconds)
    space = read_status(os.getpid(), "VmSize") + limits.memory + limits.mapped + RESERVED_BY_LIBRARIES
    for name, amount in (("RLIMIT_CPU", seconds), ("RLIMIT_AS", space), ("RLIMIT_CORE", 0)):
        with suppress(AttributeError, ValueError, OSError):
            which = getattr(resource, name)
            hard = resource.getrlimit(which)[1]
            resource.setrlimit(which, (amount if hard < 0 else min(amount, hard), hard))


def read_status(process: int, *fields: str) -> int:
    """Return the sum of fields of /proc/PROCESS/status in bytes, 0 where there is no such file."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    values = (line.split() for line in lines if line.partition(":")[0] in fields)
    return sum(int(words[1]) << 10 for words in values)
