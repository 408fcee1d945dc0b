"""Do one task of a study in its folder: lock it, run its experiment, write its result, or why it failed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from effsparse_cli.errors import EffsparseError, SetupError, WriteError, describe_error, first_line
from effsparse_cli.progress import Advance, step
from effsparse_cli.study.file import locate_data
from effsparse_cli.study.task import StudyTask, describe_task
from effsparse_cli.study.task_folder import FAILED, FINISHED, RUNNING, TaskFailure, TaskFolder

Report = Callable[[int, int], None]
Experiment = Callable[[StudyTask, Path, Report], Mapping[str, Any]]
"""Runs a task in a folder; calls `report(done, total)` as it goes on; returns its result."""


@dataclass(frozen=True)
class Work:
    """A task, the folder that its data is relative to, and what to do. `known_failure` is the failure that a
    retry may repeat; any other was recorded by another run, and stands."""

    folder: TaskFolder
    data_relative_to: Path
    experiment: Experiment
    known_failure: TaskFailure | None = None


class TaskEnd(NamedTuple):
    """How a task ended: finished, failed, or running in another process. `stop` if no other task should start."""

    state: str
    reason: str = ""
    stop: bool = False


def perform(work: Work) -> TaskEnd:
    """Do a task unless another run has done it, or is doing it."""
    folder = work.folder
    try:
        with folder.locked() as mine:
            if not mine:
                return TaskEnd(RUNNING)
            folder.describe()
            if folder.is_finished():
                return TaskEnd(FINISHED)
            failure = folder.failure()
            if failure is not None and failure != work.known_failure:
                return TaskEnd(FAILED, failure.reason)
            return _run(work)
    except (EffsparseError, OSError) as error:
        return TaskEnd(FAILED, first_line(error), stop=True)


def _run(work: Work) -> TaskEnd:
    folder = work.folder
    try:
        with ExitStack() as stack:
            task = locate_data(folder.task, work.data_relative_to)
            result = work.experiment(task, folder.path, _reporter(stack, describe_task(task)))
        folder.write_result(result)
    except (Exception, SystemExit) as error:
        if isinstance(error, SetupError | WriteError | OSError):  # the next task would fail too
            return TaskEnd(FAILED, first_line(error), stop=True)
        expected = isinstance(error, EffsparseError)
        reason = str(error) if expected else describe_error(error)
        folder.write_failure(reason, "" if expected else traceback.format_exc())
        return TaskEnd(FAILED, reason)
    return TaskEnd(FINISHED)


def _reporter(stack: ExitStack, description: str) -> Report:
    """Return a function that turns what an experiment reports into a step."""
    advance: Advance | None = None
    shown = 0

    def report(done: int, total: int) -> None:
        nonlocal advance, shown
        if advance is None:
            advance = stack.enter_context(step(description, total))
        advance(done - shown)
        shown = done

    return report
