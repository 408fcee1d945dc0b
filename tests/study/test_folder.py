"""The folder of a study: what is taken for one, what stays when it is run again, and that it can move."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from effsparse_cli.api.studying import read_study
from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.study.folder import read_folder
from effsparse_cli.study.task_folder import CHECKPOINT, FINISHED, PENDING
from tests.study import fake
from tests.study.studies import BASE, to_toml
from tests.study.test_run import logs, recipes, run, write

__all__ = ["recipes"]


@pytest.mark.parametrize("names", [["notes.txt"], ["study.toml"], ["tasks/a/notes.txt"], ["tasks", "study.toml"]])
def test_other_folders_are_left_alone(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / "small" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "small" / name).mkdir() if name == "tasks" else (tmp_path / "small" / name).write_text("mine")
    with pytest.raises(UsageError, match="is not the folder of a study"):
        run(write(tmp_path))
    with pytest.raises(LoadError, match=r"has no study\.json"):
        read_study(tmp_path / "small")
    assert sorted(each.name for each in (tmp_path / "small").iterdir()) == sorted({n.split("/")[0] for n in names})
    assert all(
        (tmp_path / "small" / name).is_dir() or (tmp_path / "small" / name).read_text() == "mine" for name in names
    )


@pytest.mark.parametrize("present", [[], ["tasks"], ["tasks", "study.toml"], [".effsparse-1.tmp"]])
def test_a_run_that_was_killed_at_its_start_is_resumed(tmp_path: Path, present: list[str]) -> None:
    (tmp_path / "small").mkdir()
    path = write(tmp_path)
    for name in present:
        if name == "tasks":
            (tmp_path / "small" / name).mkdir()
        else:
            shutil.copy(path, tmp_path / "small" / name)
    assert run(path).count(FINISHED) == 12


def test_another_run_may_begin_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder, listed = write(tmp_path), tmp_path / "small", Path.iterdir
    (folder / "tasks").mkdir(parents=True)
    shutil.copy(path, folder / "study.toml")

    def begin_after_the_listing(each: Path) -> Iterator[Path]:
        found = list(listed(each))
        if each == folder and not (folder / "study.json").exists():
            (folder / "study.json").write_text("{}")
            (folder / "tasks" / "first").mkdir()
        return iter(found)

    monkeypatch.setattr(Path, "iterdir", begin_after_the_listing)
    assert run(path).count(FINISHED) == 12


def test_data_of_another_folder_is_other_data(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "data").mkdir(parents=True)
        write(tmp_path / name, data={"kind": "npz", "path": "data"})
    assert run(tmp_path / "a" / "small.toml", folder=tmp_path / "out").count(FINISHED) == 12
    with pytest.raises(UsageError, match=r"are those of the data .*/a/data, not .*/b/data"):
        run(tmp_path / "b" / "small.toml", folder=tmp_path / "out")
    (tmp_path / "a" / "data").rename(tmp_path / "moved")
    assert run(tmp_path / "b" / "small.toml", folder=tmp_path / "out").count(FINISHED) == 12


def test_a_study_moves_with_its_data(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    run(write(tmp_path / "one"))
    (tmp_path / "one").rename(tmp_path / "two")
    opened = read_folder(tmp_path / "two" / "small", fake.find_recipe)
    assert (opened.study.folder, opened.study.source) == (tmp_path / "two", tmp_path / "two" / "small.toml")
    run(tmp_path / "two" / "small" / "study.toml")
    assert read_folder(tmp_path / "two" / "small", fake.find_recipe).study == opened.study
    (tmp_path / "link").symlink_to(tmp_path / "two" / "small")
    assert read_folder(tmp_path / "link", fake.find_recipe).study == opened.study


def test_only_study_toml_is_the_copy(tmp_path: Path) -> None:
    run(write(tmp_path))
    (tmp_path / "small" / "more.toml").write_text(to_toml({**BASE, "seeds": 3}))
    assert run(tmp_path / "small" / "more.toml", folder=tmp_path / "small").count(FINISHED) == 18
    assert read_study(tmp_path / "small").count(FINISHED) == 18


def test_checkpoints_of_finished_tasks_are_removed(tmp_path: Path) -> None:
    path = write(tmp_path)
    report = run(path)
    left = tmp_path / "small" / "tasks" / report.tasks[0].name / CHECKPOINT
    left.touch()
    run(path)
    assert not left.exists()


def test_a_folder_without_tasks_is_read(tmp_path: Path) -> None:
    run(write(tmp_path))
    shutil.rmtree(tmp_path / "small" / "tasks")
    assert read_study(tmp_path / "small").count(PENDING) == 12


def test_a_damaged_index_is_written_again(tmp_path: Path) -> None:
    path = write(tmp_path)
    run(path)
    before = logs(tmp_path / "small")
    (tmp_path / "small" / "study.json").write_text("")
    with pytest.raises(LoadError, match=r"study\.json cannot be read: .* effsparse study run, .* writes it again"):
        read_study(tmp_path / "small")
    assert run(path).count(FINISHED) == 12
    assert logs(tmp_path / "small") == before


def test_a_lost_index_is_written_again(tmp_path: Path) -> None:
    path = write(tmp_path)
    run(path)
    before = logs(tmp_path / "small")
    (tmp_path / "small" / "study.json").unlink()
    assert run(path).count(FINISHED) == 12
    (tmp_path / "small" / "study.json").unlink()
    assert run(tmp_path / "small" / "study.toml").folder == str(tmp_path / "small")
    assert logs(tmp_path / "small") == before
    (tmp_path / "small" / "study.json").unlink()
    with pytest.raises(UsageError, match="is not the folder of a study"):
        run(write(tmp_path, compressions=[7]))


def test_folders_with_strange_names(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"not UTF-8: \xff")
    folder.mkdir()
    assert run(write(folder)).count(FINISHED) == 12
    assert read_folder(folder / "small", fake.find_recipe).study.folder == folder
    with pytest.raises(UsageError, match="cannot be created: File name too long"):
        run(write(tmp_path), folder=tmp_path / ("long" * 100))


def test_the_copy_in_the_folder_can_be_run_too(tmp_path: Path) -> None:
    run(write(tmp_path))
    before = logs(tmp_path / "small")
    assert run(tmp_path / "small" / "study.toml").folder == str(tmp_path / "small")
    assert logs(tmp_path / "small") == before
    assert read_folder(tmp_path / "small", fake.find_recipe).study.folder == tmp_path


def test_damaged_results_are_named(tmp_path: Path) -> None:
    report = run(write(tmp_path))
    broken = tmp_path / "small" / "tasks" / report.tasks[0].name / "result.json"
    broken.write_text("{")
    with pytest.raises(LoadError, match=r"result\.json cannot be read: .* Delete it to run the task again"):
        read_study(tmp_path / "small")
    for content in ("{}", '{"schema_version": 1, "layers": [{}]}', '{"schema_version": 1, "accuracy": "high"}'):
        broken.write_text(content)
        with pytest.raises(LoadError, match=r"result\.json is not the result of a task\. Delete it to run"):
            read_study(tmp_path / "small")
    broken.unlink()
    assert run(tmp_path / "small.toml").count(FINISHED) == 12
