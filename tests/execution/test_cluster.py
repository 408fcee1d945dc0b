"""A Ray cluster of three nodes gives the same results as local processes, also if a node is killed.

Ray is not needed by the other tests: these are skipped without it, and run on request because a cluster takes seconds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.execution.cluster import RayEngine, import_ray
from effsparse_cli.execution.engine import Failure, TaskProgress
from effsparse_cli.execution.local import LocalEngine
from tests.execution.plain_tasks import fail, leave_mark, nothing, square
from tests.execution.ray_cluster import started_cluster


def test_without_ray_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"--engine ray needs Ray.*pip install ray"):
        import_ray()
    with pytest.raises(UsageError, match="needs Ray"):
        next(RayEngine().run([1], square))


@pytest.fixture
def cluster() -> Iterator[Any]:
    with started_cluster() as started:
        yield started


@pytest.mark.slow
def test_a_cluster_gives_the_same_results_as_this_machine(cluster: Any) -> None:
    shown: dict[int, TaskProgress] = {}
    engine = RayEngine(cluster.address)
    assert dict(engine.run(range(40), square, show=shown.__setitem__)) == dict(LocalEngine(2).run(range(40), square))
    assert shown[39].description == "squaring 39"
    assert dict(engine.run([1], nothing)) == {0: None}
    assert dict(engine.run([1], fail)) == {0: Failure("ZeroDivisionError: task 1")}


@pytest.mark.slow
def test_tasks_run_in_the_folder_of_the_caller(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in that of the cluster: paths of tasks may be relative."""
    monkeypatch.chdir(tmp_path)
    assert dict(RayEngine(cluster.address).run(["a", "."], os.path.abspath)) == {
        0: str(tmp_path / "a"),
        1: str(tmp_path),
    }


@pytest.mark.slow
def test_a_killed_node_costs_no_finished_task(cluster: Any, tmp_path: Path) -> None:
    tasks = [(str(tmp_path), number) for number in range(40)]
    finished: dict[int, int] = {}
    marks: dict[int, str] = {}
    outcomes = RayEngine(cluster.address).run(tasks, leave_mark)
    for position, outcome in outcomes:
        finished[position] = outcome  # type: ignore[assignment]
        if len(finished) == 10:
            cluster.remove_node(cluster.extra[0], allow_graceful=False)
            marks = {number: (tmp_path / str(number)).read_text() for number in finished}
    assert finished == {number: number for number in range(40)}
    assert {number: (tmp_path / str(number)).read_text() for number in marks} == marks, "finished tasks run once"


@pytest.mark.slow
def test_a_wrong_address_is_a_usage_error() -> None:
    pytest.importorskip("ray")
    with pytest.raises(UsageError, match=r"--address 127\.0\.0\.1:1: no connection to a Ray cluster"):
        next(RayEngine("127.0.0.1:1").run([1], square))
