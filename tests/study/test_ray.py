"""A study on a Ray cluster of three nodes gives the same results as on this machine, also if a node is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.api import studying
from effsparse_cli.api.studying import run_study
from effsparse_cli.execution.cluster import RayEngine
from effsparse_cli.study.task_folder import FINISHED
from tests.execution.ray_cluster import started_cluster
from tests.study import fake
from tests.study.test_run import logs, results, run, write

pytestmark = pytest.mark.slow
FORTY = {"methods": [{"method": "random", "options": {"delay": 0.03}}], "compressions": [10, 100], "seeds": 20}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(studying, "_find_recipe", fake.find_recipe)
    with started_cluster() as started:
        yield started


@pytest.mark.parametrize("killed", [False, True])
def test_forty_tasks(cluster: Any, tmp_path: Path, killed: bool) -> None:
    local, remote = tmp_path / "local", tmp_path / "remote"
    local.mkdir()
    remote.mkdir()
    run(write(local, **FORTY))
    finished: dict[str, str] = {}

    def kill_a_node(text: str) -> None:
        if killed and len(results(remote / "small")) >= 10 and not finished:
            finished.update({name: logs(remote / "small")[name] for name in results(remote / "small")})
            cluster.remove_node(cluster.extra[0], allow_graceful=False)

    engine = RayEngine(cluster.address)
    path = write(remote, **FORTY)
    report = run_study(path, engine=engine, experiment=fake.run_experiment, notify=kill_a_node)
    assert report.count(FINISHED) == 40
    assert results(remote / "small") == results(local / "small")
    assert bool(finished) == killed
    assert {name: logs(remote / "small")[name] for name in finished} == finished
