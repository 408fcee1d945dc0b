"""Studies that train: killed many times, or on a Ray cluster that loses a node, they give the results of an undisturbed
run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.api.studying import read_study, run_study
from effsparse_cli.execution.cluster import RayEngine
from effsparse_cli.execution.local import LocalEngine
from effsparse_cli.study.task_folder import FINISHED, RUNNING
from tests.execution.ray_cluster import started_cluster
from tests.study.studies import to_toml

ROOT = Path(__file__).parents[2]
COMMAND = "import sys; from effsparse_cli.cli import main; sys.exit(main())"
FILES = ("curve.csv", "masks.safetensors", "weights.safetensors")
STUDY: dict[str, Any] = {
    "model": "tests.study.tiny:mlp",
    "data": {"kind": "code", "path": "tests.study.tiny:datasets"},
    "effective": False,
    "compressions": [4, 10],
    "methods": ["snip", {"method": "random", "lsq": "igq"}],
    "recipe": {"epochs": 3, "batch": 16, "lr": 0.05},
}


def write(folder: Path, **changes: Any) -> Path:
    folder.mkdir()
    path = folder / "small.toml"
    path.write_text(to_toml({**STUDY, **changes}), encoding="utf-8")
    return path


def contents(file: Path) -> dict[str, Any]:
    """Return what the tasks of a study have found, apart from the time that they took."""
    found: dict[str, Any] = {}
    for result in file.with_suffix("").glob("tasks/*/result.json"):
        document = json.loads(result.read_text())
        del document["seconds"]
        found[result.parent.name] = document, *((result.parent / name).read_bytes() for name in FILES)
    return found


def times(file: Path) -> dict[str, int]:
    """Return when each result was written."""
    return {each.parent.name: each.stat().st_mtime_ns for each in file.with_suffix("").glob("tasks/*/result.json")}


def last_change(file: Path) -> int:
    """Return when a task of a study was last changed."""
    return max((each.stat().st_mtime_ns for each in file.with_suffix("").glob("tasks/*/curve.csv")), default=0)


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    """Every fourth time, the run is killed while it starts, otherwise some time after its first progress."""
    training = {"method": "rigl", "lsq": "erk", "options": {"every": 5}}
    changes = {"methods": ["snip", training], "seeds": 4, "recipe": {"epochs": 150, "batch": 16, "lr": 0.05}}
    undisturbed, killed = write(tmp_path / "a", **changes), write(tmp_path / "b", **changes)
    began = time.monotonic()
    run_study(undisturbed, engine=LocalEngine(2, threads=1), trust=True)
    longest = (time.monotonic() - began) / 30
    chance = random.Random(0)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for number in range(20):
        before, changed = times(killed), last_change(killed)
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "study", "run", str(killed), "--trust", "-j", "2"],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        while number % 4 and last_change(killed) == changed and process.poll() is None:
            time.sleep(0.01)
        time.sleep(longest * chance.random())
        assert process.poll() is None, "killed while it ran"
        process.send_signal(signal.SIGKILL)
        process.wait()
        after = times(killed)
        assert {name: after[name] for name in before} == before, "nothing finished is computed twice"
    while RUNNING in {each.state for each in read_study(killed.with_suffix("")).tasks}:
        time.sleep(0.05)
    assert run_study(killed, engine=LocalEngine(2, threads=1), trust=True).count(FINISHED) == 16
    assert contents(killed) == contents(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("node_killed", [False, True])
def test_forty_tasks_on_a_cluster(tmp_path: Path, node_killed: bool) -> None:
    local, remote = write(tmp_path / "local", seeds=10), write(tmp_path / "remote", seeds=10)
    run_study(local, engine=LocalEngine(2, threads=1), trust=True)
    finished: dict[str, int] = {}
    with started_cluster() as cluster:

        def kill_a_node(text: str) -> None:
            if node_killed and not finished and len(times(remote)) >= 10:
                finished.update(times(remote))
                cluster.remove_node(cluster.extra[0], allow_graceful=False)

        report = run_study(remote, engine=RayEngine(cluster.address), trust=True, notify=kill_a_node)
    assert report.count(FINISHED) == 40
    assert contents(remote) == contents(local)
    assert bool(finished) == node_killed
    assert {name: times(remote)[name] for name in finished} == finished, "nothing finished is computed twice"
