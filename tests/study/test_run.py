"""A study runs every task once, whatever fails, and goes on where it was."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import effsparse_cli
from effsparse_cli.api import studying
from effsparse_cli.api.studying import read_study, run_study
from effsparse_cli.errors import EffsparseError, LoadError, UsageError
from effsparse_cli.execution.cluster import RayEngine
from effsparse_cli.execution.local import LocalEngine
from effsparse_cli.study.folder import read_folder
from effsparse_cli.study.perform import Work, perform
from effsparse_cli.study.task_folder import CHECKPOINT, FAILED, FINISHED, PENDING, RUNNING
from tests.study import fake
from tests.study.studies import BASE, to_toml

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import effsparse_cli
from effsparse_cli.api import studying
from effsparse_cli.execution.local import LocalEngine
from tests.study import fake
studying._find_recipe = fake.find_recipe
if __name__ == "__main__":
    studying.run_study(sys.argv[1], engine=LocalEngine(2, threads=1), experiment=fake.run_experiment)
"""


@pytest.fixture(autouse=True)
def recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studying, "_find_recipe", fake.find_recipe)


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "small.toml"
    path.write_text(to_toml({**BASE, **changes}), encoding="utf-8")
    return path


def run(path: Path, **more: Any) -> Any:
    return run_study(path, engine=LocalEngine(2, threads=1), experiment=fake.run_experiment, **more)


def results(folder: Path) -> dict[str, Any]:
    return {file.parent.name: json.loads(file.read_text()) for file in folder.glob("tasks/*/result.json")}


def logs(folder: Path) -> dict[str, str]:
    return {file.parent.name: file.read_text() for file in folder.glob("tasks/*/log.txt")}


def options(**changes: Any) -> list[Any]:
    return ["synflow", {"method": "snip", "options": changes}]


def test_every_task_has_a_folder_of_plain_files(tmp_path: Path) -> None:
    report = run(write(tmp_path, title="Small"))
    assert (report.count(FINISHED), report.failed, len(report.tasks)) == (12, False, 12)
    folder = tmp_path / "small"
    assert (folder / "study.toml").read_text() == (tmp_path / "small.toml").read_text()
    assert json.loads((folder / "study.json").read_text())["tasks"] == [each.name for each in report.tasks]
    first = folder / "tasks" / report.tasks[0].name
    assert json.loads((first / "task.json").read_text())["method"] == "snip"
    assert json.loads((first / "result.json").read_text())["accuracy"] == report.tasks[0].number("accuracy")
    assert not list(folder.rglob(".effsparse-*"))
    assert not list(folder.rglob(CHECKPOINT)), "finished tasks need none"


def test_finished_tasks_are_never_repeated(tmp_path: Path) -> None:
    path = write(tmp_path)
    run(path)
    before = logs(tmp_path / "small")
    again = run(path)
    assert again.count(FINISHED) == 12
    assert logs(tmp_path / "small") == before
    assert set(before.values()) == {"".join(f"{i}\n" for i in range(1, fake.STEPS + 1))}


def test_gpus_are_not_reserved_for_training_on_the_cpu(tmp_path: Path) -> None:
    engine = RayEngine(gpus=0.5)
    with pytest.raises(UsageError, match=r"--gpus 0\.5: the recipe trains on the CPU"):
        run_study(write(tmp_path, recipe={"device": "cpu"}), engine=engine)
    with pytest.raises(LoadError, match="does not exist"):
        run_study(write(tmp_path, recipe={"device": "cuda"}), engine=engine)
    assert not (tmp_path / "small").exists()


def test_a_changed_study_keeps_what_still_occurs(tmp_path: Path) -> None:
    run(write(tmp_path))
    before = logs(tmp_path / "small")
    report = run(write(tmp_path, compressions=[100, 1000]))
    assert report.count(FINISHED) == 12
    assert len(report.strays) == 6
    assert all("direct10x" in stray or "effective10x" in stray for stray in report.strays)
    assert "- 6 folders of other tasks, from earlier study files, no longer needed: " in " ".join(str(report).split())
    after = logs(tmp_path / "small")
    assert {name: after[name] for name in before} == before
    assert len(after) == 18


@pytest.mark.parametrize(
    ("misfortune", "reason"),
    [
        ("fail", "the loss is NaN in epoch 2"),
        ("bug", "ZeroDivisionError: division by zero"),
        ("crash", "the process that ran it crashed (SIGSEGV)"),
    ],
)
def test_a_failed_task_is_recorded_and_the_rest_goes_on(tmp_path: Path, misfortune: str, reason: str) -> None:
    report = run(write(tmp_path, methods=options(**{misfortune: True}), compressions=[10]))
    assert (report.count(FINISHED), report.count(FAILED)) == (2, 2)
    assert {each.reason for each in report.tasks if each.state == FAILED} == {reason}
    assert reason in str(report)
    stored = [json.loads(file.read_text())["traceback"] for file in (tmp_path / "small").rglob("failure.json")]
    assert all("_misbehave" in text for text in stored) == (misfortune == "bug")


def test_only_retry_repeats_failed_tasks(tmp_path: Path) -> None:
    path = write(tmp_path, methods=options(fail=True), compressions=[10])
    run(path)
    (tmp_path / "small" / "mended").touch()
    assert run(path).count(FAILED) == 2
    before = logs(tmp_path / "small")
    report = run(path, retry=True)
    assert report.count(FINISHED) == 4
    assert not list((tmp_path / "small").rglob("failure.json"))
    changed = {name for name, text in logs(tmp_path / "small").items() if before[name] != text}
    assert changed == {each.name for each in report.tasks if each.method == "snip"}
    assert run(path, retry=True).count(FINISHED) == 4


def test_a_retry_that_is_stopped_knows_what_failed(tmp_path: Path) -> None:
    path = write(tmp_path, methods=options(fail=True), compressions=[10])
    run(path)

    def stop(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(path, retry=True, notify=stop)
    assert read_study(tmp_path / "small").count(FAILED) == 2
    (tmp_path / "small" / "mended").touch()
    assert run(path, retry=True).count(FINISHED) == 4


def test_a_failure_of_another_run_is_not_repeated(tmp_path: Path) -> None:
    run(write(tmp_path, methods=options(fail=True), compressions=[10], seeds=1))
    task = next(each for each in read_folder(tmp_path / "small", fake.find_recipe).tasks if each.state() == FAILED)
    before = logs(tmp_path / "small")
    work = Work(task, tmp_path, fake.run_experiment)
    assert perform(work) == (FAILED, "the loss is NaN in epoch 2", False)
    assert logs(tmp_path / "small") == before
    (tmp_path / "small" / "mended").touch()
    assert perform(replace(work, known_failure=task.failure())).state == FINISHED


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("full", "No space left on device"),
        ("unwritable", r"Is the disk full\?"),
        ("setup", "the data folder mnist does not exist"),
    ],
)
def test_what_all_tasks_would_meet_stops_the_study_and_loses_nothing(tmp_path: Path, trouble: str, reason: str) -> None:
    path = write(tmp_path, methods=options(**{trouble: True}), compressions=[10])
    with pytest.raises(
        EffsparseError, match=rf"the study stopped: .*{reason}\.? Finished tasks are kept: fix this and run the same"
    ):
        run(path)
    report = read_study(tmp_path / "small")
    assert report.count(FAILED) == 0
    # How many of the other two were finished when the study stopped depends on the processes.
    assert report.count(PENDING) >= 2
    assert report.count(FINISHED) + report.count(PENDING) == 4


def test_a_task_of_another_run_is_waited_for(tmp_path: Path) -> None:
    path = write(tmp_path, methods=["snip"], compressions=[10], seeds=1)
    run(path)
    (task,) = read_folder(tmp_path / "small", fake.find_recipe).tasks
    (task.path / "result.json").unlink()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(task.path / ".lock")], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert task.state() == RUNNING
    said: list[str] = []

    def end_other_run(text: str) -> None:
        said.append(text)
        holder.send_signal(signal.SIGKILL)
        holder.wait()

    assert run(path, notify=end_other_run).count(FINISHED) == 1
    assert said[0] == "waiting for 1 task of another run"


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def kill_after(path: Path, seconds: float) -> None:
    """Run a study in a process, and kill it with all its workers' parent after some time."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    script = path.parent / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, str(script), str(path)], env=environment)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()


def check_kills(tmp_path: Path, kills: int, delay: float) -> None:
    changes: dict[str, Any] = {"methods": [{"method": "random", "options": {"delay": delay}}], "seeds": 4}
    undisturbed, killed = tmp_path / "a", tmp_path / "b"
    undisturbed.mkdir()
    killed.mkdir()
    run(write(undisturbed, **changes))
    path, chance = write(killed, **changes), random.Random(0)
    for _ in range(kills):
        before = {name: text for name, text in logs(killed / "small").items() if name in results(killed / "small")}
        kill_after(path, 0.3 + chance.random() * 2)
        after = logs(killed / "small")
        assert {name: after[name] for name in before} == before, "nothing finished is computed twice"
    give_up = time.monotonic() + 60
    while RUNNING in {each.state for each in read_study(killed / "small").tasks} and time.monotonic() < give_up:
        time.sleep(0.05)
    assert run(path).count(FINISHED) == 8
    assert results(killed / "small") == results(undisturbed / "small")
    assert not list((killed / "small").rglob(".effsparse-*"))


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=3, delay=0.02)


@pytest.mark.slow
def test_twenty_kills_change_nothing(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=20, delay=0.4)


def test_missing_data_is_found_before_anything_is_written(tmp_path: Path) -> None:
    path = write(tmp_path, recipe={"epochs": 1}, data={"kind": "mnist", "path": "absent"})
    with pytest.raises(LoadError, match=rf"the data {tmp_path / 'absent'} does not exist"):
        run_study(path)
    assert [each.name for each in tmp_path.iterdir()] == ["small.toml"]


def test_code_needs_trust(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"names code to run\. Add --trust"):
        run(write(tmp_path, model="my.models:build"))
    assert not (tmp_path / "small").exists()
    assert run(write(tmp_path, model="my.models:build"), trust=True).count(FINISHED) == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "slurm"}, "engine slurm: unknown; choices: local, ray"),
        ({"jobs": 0}, "jobs=0: use at least one process"),
        ({"address": "auto"}, "address is for engine ray"),
    ],
)
def test_python_chooses_engines_by_name(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path)
    assert effsparse_cli.run_study(path, jobs=2, experiment=fake.run_experiment).count(FINISHED) == 12
    with pytest.raises(UsageError, match=message):
        effsparse_cli.run_study(path, experiment=fake.run_experiment, **changes)
