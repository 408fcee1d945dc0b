"""A task that exceeds a limit, crashes or is killed gives a failure, and the other tasks still run."""

from __future__ import annotations

import multiprocessing
import sys

import pytest

from effsparse_cli.execution.tasks import run_tasks
from effsparse_cli.execution.worker import Failure, Limits
from tests.execution.hostile_tasks import work

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are enforced on Linux")
SMALL = Limits(memory=400 << 20, seconds=1)


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("loop", "exceeded the time limit of 1 s"),
        ("sleep", "exceeded the time limit of 0.05 s"),
        ("grow", "exceeded the memory limit of 0.419 GB"),
        ("jump", "exit code 1"),
        ("crash", "crashed (SIGSEGV)"),
        ("kill", "was killed"),
        ("exit", "exit code 9"),
    ],
)
def test_other_tasks_run_when_one_fails(task: str, reason: str) -> None:
    limits = Limits(SMALL.memory, 0.05) if task == "sleep" else SMALL
    first, failed, last = run_tasks(["first", task, "last"], work, [SMALL, limits, SMALL], workers=2)
    assert (first, last) == ("done first", "done last")
    assert isinstance(failed, Failure)
    assert reason in failed.reason


def test_closing_the_results_ends_all_workers() -> None:
    outcomes = run_tasks(["first", "sleep"], work, [SMALL, SMALL], workers=2)
    assert next(outcomes) == "done first"
    (sleeper,) = multiprocessing.active_children()
    outcomes.close()
    assert not sleeper.is_alive()
