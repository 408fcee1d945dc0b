"""A task that exceeds a limit, crashes or is killed gives a failure, and the other tasks still run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from effsparse_cli.execution.engine import Failure, Limits, TaskProgress, in_order
from effsparse_cli.execution.local import LocalEngine
from tests.execution.hostile_tasks import work
from tests.execution.plain_tasks import fail, leave_child, nothing, read_threads, square, square_within

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are enforced on Linux")
ROOT = Path(__file__).parents[2]
SMALL = Limits(memory=400 << 20, seconds=1)
TWO = LocalEngine(workers=2)
ORPHAN = """
import sys
from effsparse_cli.execution.local import LocalEngine
from tests.execution.plain_tasks import leave_mark, sleep
if __name__ == "__main__":
    list(LocalEngine(workers=2).run([600.0, 601.0], sleep))
"""


@linux
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
    outcomes = TWO.run(["first", task, "last"], work, limits=[SMALL, limits, SMALL])
    first, failed, last = in_order(outcomes)
    assert (first, last) == ("done first", "done last")
    assert isinstance(failed, Failure)
    assert reason in failed.reason


@linux
def test_children_of_a_killed_task_are_not_waited_for(tmp_path: Path) -> None:
    ((_, failed),) = TWO.run([str(tmp_path / "child")], leave_child)
    assert isinstance(failed, Failure)
    assert "was killed" in failed.reason
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)  # an error if it has ended already


def test_closing_the_results_ends_all_workers() -> None:
    outcomes = TWO.run(["first", "sleep"], work, limits=[SMALL, SMALL])
    assert next(outcomes) == (0, "done first")
    (sleeper,) = multiprocessing.active_children()
    outcomes.close()
    assert not sleeper.is_alive()


def test_every_task_has_one_outcome() -> None:
    assert dict(TWO.run(range(5), square)) == {i: i * i for i in range(5)}
    assert dict(TWO.run([7], nothing)) == {0: None}
    assert dict(TWO.run([], square)) == {}


def test_outcomes_in_order_come_as_early_as_possible() -> None:
    seen = []

    def outcomes() -> object:
        for each in (2, 0, 1):
            seen.append(each)
            yield each, f"outcome {each}"

    assert next(in_order(outcomes())) == "outcome 0"  # type: ignore[arg-type]
    assert seen == [2, 0]
    assert list(in_order([(1, "b"), (0, "a")])) == ["a", "b"]


def test_an_unexpected_error_is_a_failure() -> None:
    ((_, outcome),) = TWO.run([1], fail)
    assert outcome == Failure("the process that ran it ended with exit code 1")


def test_progress_comes_from_within_tasks() -> None:
    shown: dict[int, list[TaskProgress]] = {}
    list(TWO.run([3, 4], square, show=lambda i, progress: shown.setdefault(i, []).append(progress)))
    assert {i: each[0] for i, each in shown.items()} == {i: TaskProgress(f"squaring {i + 3}", 0, 2) for i in (0, 1)}


def test_steps_within_steps_are_named_by_both() -> None:
    shown: list[TaskProgress] = []
    list(TWO.run([3, 4], square_within, show=lambda i, progress: shown.append(progress) if i == 0 else None))
    assert shown == [
        TaskProgress("outer", 0, 2, 0),
        TaskProgress("outer: squaring 3", 0, 2, 1),
        TaskProgress("outer", 2, 2, 0),
    ]


def test_threads_are_set_for_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    assert dict(LocalEngine(workers=2, threads=1).run([0, 1], read_threads)) == {0: "1", 1: "1"}
    assert dict(os.environ) == before


ALONE = """
import sys
from effsparse_cli.execution.local import LocalEngine
from tests.execution.plain_tasks import inspect_main
before = {name: value for name, value in vars().items() if name in ("__file__", "__spec__")}
for number in (1, 2):
    assert dict(LocalEngine(workers=2).run(range(number), inspect_main)) == dict.fromkeys(range(number), True)
assert before == {name: value for name, value in vars().items() if name in ("__file__", "__spec__")}
"""


@linux
@pytest.mark.parametrize("as_file", [True, False])
def test_the_main_module_can_be_inspected(as_file: bool, tmp_path: Path) -> None:
    """In the tasks, and after them, where it has a file and where it has none, as in a notebook."""
    (tmp_path / "script.py").write_text(ALONE)
    given = [str(tmp_path / "script.py")] if as_file else ["-c", ALONE]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *given], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


INTERRUPTED = """
from effsparse_cli.execution.local import LocalEngine
from tests.execution.plain_tasks import sleep
if __name__ == "__main__":
    try:
        list(LocalEngine(workers=2).run([600.0, 601.0], sleep, preload=("torch",)))
    except KeyboardInterrupt:
        print("interrupted")
"""


@linux
def test_an_interrupt_has_no_tracebacks(tmp_path: Path) -> None:
    """Ctrl-C reaches the server of processes, too, while it imports what tasks need."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "interrupted.py")],
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    give_up = time.monotonic() + 60
    while len(_session(parent.pid)) < 3 and time.monotonic() < give_up:  # parent, tracker, server
        time.sleep(0.02)
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.communicate(timeout=60) == ("interrupted\n", "")


@linux
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "orphan.py").write_text(ORPHAN)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, str(tmp_path / "orphan.py")], env=environment, start_new_session=True)
    give_up = time.monotonic() + 60
    while len(_session(parent.pid)) < 4 and time.monotonic() < give_up:  # parent, tracker, server, two workers
        time.sleep(0.02)
    assert len(_session(parent.pid)) >= 4
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while _session(parent.pid) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert not _session(parent.pid)


def _session(leader: int) -> list[int]:
    """Return the processes of a session that are not zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[3] == str(leader) and fields[0] != "Z":
            found.append(int(folder.name))
    return found
