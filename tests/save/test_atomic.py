"""Files appear whole or not at all, and an input is never written over."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.save.atomic import check_target, replacing


def test_target_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_failure_leaves_the_old_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")

    def fail_halfway() -> None:
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_mode_is_kept_or_the_usual_one(tmp_path: Path) -> None:
    old, new, usual = tmp_path / "old", tmp_path / "new", tmp_path / "usual"
    old.touch()
    old.chmod(0o640)
    usual.touch()
    for target in (old, new):
        with replacing(target) as temporary:
            temporary.write_text("x")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert new.stat().st_mode == usual.stat().st_mode


def test_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    with replacing(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with replacing(pipe) as temporary:
        temporary.write_text("through")
    reader.join()
    assert read == ["through"]
    assert pipe.is_fifo()


def test_refused_before_work(tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    model.touch()
    link = tmp_path / "link.pt"
    link.symlink_to(model)
    for target in (model, link):
        with pytest.raises(UsageError, match="never overwritten"):
            check_target(target, "-o", [model])
    with pytest.raises(UsageError, match="is a folder"):
        check_target(tmp_path, "-o")
    with pytest.raises(UsageError, match="no folder"):
        check_target(tmp_path / "absent" / "out", "-o")
    check_target(tmp_path / "out", "-o", [model, tmp_path / "absent"])


def test_unwritable_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"), replacing(tmp_path / ("n" * 300)):
        pytest.fail("there is nothing to write to")
