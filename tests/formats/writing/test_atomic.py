"""Files appear whole or not at all, and an input is never written over."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from effsparse_cli import files
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import OLD, PREFIX, check_outputs, check_target, replacing, temporary_path
from tests.checks.models import dense, write_mlp


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
    with pytest.raises(UsageError, match="does not exist"):
        check_target(tmp_path / "absent" / "out", "-o")
    check_target(tmp_path / "out", "-o", [model, tmp_path / "absent"])


def test_unwritable_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"), replacing(tmp_path / ("n" * 300)):
        pytest.fail("there is nothing to write to")


def test_two_outputs_are_never_one_file(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    os.link(tmp_path / "old", tmp_path / "again")
    for other in (tmp_path / "old", tmp_path / "again", tmp_path / "." / "old"):
        with pytest.raises(UsageError, match="use different files"):
            check_outputs({"-o": tmp_path / "old", "--plot": other})
    check_outputs({"-o": tmp_path / "a", "--plot": tmp_path / "b", "--none": None})


def test_what_was_read_is_not_replaced(tmp_path: Path) -> None:
    model, target = tmp_path / "model", tmp_path / "target"
    model.write_text("weights")
    os.link(model, target)
    with files.one_run():
        files.note_read(model)
        with pytest.raises(UsageError, match="never overwritten"), replacing(target):
            pytest.fail("nothing may be written")
        with pytest.raises(UsageError, match="never overwritten"):
            check_target(target, "-o")
        files.allow_replacing(model)
        with replacing(target) as temporary:
            temporary.write_text("new")
    assert (model.read_text(), target.read_text()) == ("weights", "new")


def test_runs_do_not_know_each_other(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    with files.one_run():
        files.note_read(target)
    files.note_read(target)
    with files.one_run(), replacing(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"


def test_content_is_on_the_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, Path.replace

    def synced(handle: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def renamed(path: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    with replacing(tmp_path / "target") as temporary:
        temporary.write_text("x")
    assert steps == ["file", "rename", "folder"]


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def leftover(folder: Path, process: int, machine: str = "", age: float = 0) -> Path:
    name = temporary_path(folder / "x.pt").name
    parts = name.split("-")
    file = folder / "-".join([parts[0], machine or parts[1], str(process), *parts[3:]])
    file.write_text("half")
    os.utime(file, (time.time() - age,) * 2)
    return file


def test_leftovers_of_killed_runs_go(tmp_path: Path) -> None:
    gone = ended_process()
    removed = [leftover(tmp_path, gone), leftover(tmp_path, 1, age=10 * OLD), leftover(tmp_path, 1, "0" * 8, 10 * OLD)]
    kept = [leftover(tmp_path, os.getppid()), leftover(tmp_path, gone, "0" * 8), leftover(tmp_path, os.getpid())]
    folder = leftover(tmp_path, gone)
    folder.unlink()
    folder.mkdir()
    (folder / "shard").touch()
    others = [tmp_path / ".effsparse-notes", tmp_path / f".x.{gone}.pt"]
    for other in others:
        other.touch()
    with replacing(tmp_path / "target") as temporary:
        temporary.write_text("new")
    assert not [file for file in (*removed, folder) if file.exists()]
    assert all(file.exists() for file in (*kept, *others))


def test_two_runs_at_once_keep_their_files(tmp_path: Path) -> None:
    with replacing(tmp_path / "one") as first:
        first.write_text("1")
        with replacing(tmp_path / "two") as second:
            second.write_text("2")
        assert first.exists()
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_a_killed_run_is_cleaned_up(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from effsparse_cli.formats.writing.atomic import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), 9)
"""
    target = tmp_path / "out.txt"
    subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    (left,) = os.listdir(tmp_path)
    assert left.startswith(PREFIX)
    with replacing(target) as temporary:
        temporary.write_text("whole")
    assert os.listdir(tmp_path) == ["out.txt"]


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError, match="points to itself"):
        check_target(tmp_path / "loop", "-o")
    (tmp_path / "far").symlink_to(tmp_path / "absent" / "file")
    with pytest.raises(UsageError, match="does not exist"):
        check_target(tmp_path / "far", "-o")
    (tmp_path / "new").symlink_to(tmp_path / "file")
    check_target(tmp_path / "new", "-o")
    with replacing(tmp_path / "new") as temporary:
        temporary.write_text("x")
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.skipif(sys.platform == "win32" or os.getuid() == 0, reason="root may write everywhere")
def test_places_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    (tmp_path / "kept").touch(mode=0o400)
    for target in (tmp_path / "closed" / "x", tmp_path / "kept"):
        with pytest.raises(UsageError, match="permission denied"):
            check_target(target, "-o")


@pytest.mark.parametrize("writer", ["text", "masks", "module"])
def test_a_full_disk(tmp_path: Path, writer: str) -> None:
    """A limit on the size of files stands for the disk: the error is clear, and nothing is left."""
    command = {
        "text": ["report", "model", "-o", "out.json", "-f", "json"],
        "masks": ["report", "model", "--active-masks", "out.safetensors"],
        "module": ["prune", "model", "--target", "0.5", "-o", "out.pt"],
    }[writer]
    if writer == "module":
        torch.save(nn.Sequential(nn.Linear(64, 64)), tmp_path / "model")
    else:
        write_mlp(tmp_path / "model", dense(64, 64))
    code = """
import resource, sys
from effsparse_cli.cli import run
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
sys.exit(run(sys.argv[1:]))
"""
    done = subprocess.run([sys.executable, "-c", code, *command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert os.listdir(tmp_path) == ["model"]
