"""Show the steps of a command on standard error, if it is a terminal and the work takes more than a second: what is
done, how much of it, and the time left."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from effsparse_cli.progress import Advance, Display, Step, shown_by
from effsparse_cli.report.escape import printable

DELAY = 1.0


@contextmanager
def progress_shown() -> Iterator[None]:
    """Show all steps within this block."""
    if not sys.stderr.isatty():
        yield
        return
    bars = _Bars()
    try:
        with shown_by(bars.display()):
            yield
    finally:
        bars.stop()


@contextmanager
def timed_steps() -> Iterator[None]:
    """Print each step within this block when it is done, with its duration, also without a terminal."""
    depth = 0

    @contextmanager
    def show(step: Step) -> Iterator[Advance]:
        nonlocal depth
        start, depth = time.perf_counter(), depth + 1
        try:
            yield lambda amount: None
        finally:
            depth -= 1
            taken = time.perf_counter() - start
            with suppress(OSError):
                print(f"{'  ' * depth}{printable(step.description)}: {taken:.2f} s", file=sys.stderr)

    with shown_by(show):
        yield


class _Bars:
    """One bar per step. Rich is imported and started only after a second."""

    def __init__(self) -> None:
        self._steps: dict[int, tuple[Step, int]] = {}
        self._number = 0
        self._lock = threading.Lock()
        self._progress: Any = None
        self._tasks: dict[int, Any] = {}
        self._timer = threading.Timer(DELAY, self._start)
        self._timer.daemon = True
        self._timer.start()

    def display(self) -> Display:
        @contextmanager
        def show(step: Step) -> Iterator[Advance]:
            with self._lock:
                self._number += 1
                number = self._number
                self._steps[number] = (step, 0)
                self._add(number)

            def advance(amount: int) -> None:
                with self._lock:
                    self._steps[number] = (step, self._steps[number][1] + amount)
                    if number in self._tasks:
                        self._progress.update(self._tasks[number], advance=amount)

            try:
                yield advance
            finally:
                with self._lock:
                    del self._steps[number]
                    if number in self._tasks:
                        self._progress.remove_task(self._tasks.pop(number))

        return show

    def _add(self, number: int) -> None:
        if self._progress is not None:
            from rich.markup import escape

            step, done = self._steps[number]
            self._tasks[number] = self._progress.add_task(
                escape(printable(step.description)),
                total=step.total,
                completed=done,
                in_bytes=step.in_bytes,
                per_item=step.per_item,
            )

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.table import Column
        from rich.text import Text

        class Count(MofNCompleteColumn):
            """Units done and all units, blank for a step without a measure."""

            def render(self, task: Any) -> Text:
                if task.total is None:
                    return Text("")
                if task.fields["in_bytes"]:
                    return bytes_read.render(task)
                each = task.fields["per_item"]
                done, total = (str(int(number // each)) for number in (task.completed, task.total))
                return Text(f"{done.rjust(len(total))}/{total}", style="progress.download")

        class Description(TextColumn):
            """The only column that is shortened to fit the terminal."""

            def render(self, task: Any) -> Text:
                text = super().render(task)
                text.no_wrap, text.overflow = True, "ellipsis"
                return text

        def whole() -> Column:
            return Column(no_wrap=True)

        bytes_read = DownloadColumn()
        console = Console(stderr=True)
        columns = (
            SpinnerColumn(table_column=whole()),
            Description("{task.description}", table_column=Column()),
            BarColumn(bar_width=min(40, console.width // 8), table_column=whole()),
            Count(table_column=whole()),
            TimeElapsedColumn(table_column=whole()),
            TimeRemainingColumn(table_column=whole()),
        )
        with self._lock:
            self._progress = Progress(*columns, console=console, transient=True)
            for number in self._steps:
                self._add(number)
            self._progress.start()

    def stop(self) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._progress is not None:
            self._progress.stop()
