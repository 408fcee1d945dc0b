"""What people get wrong, and what they are told: exit codes and messages, compared with `tests/data/mistakes.txt`.

`UPDATE_GOLDEN=1 pytest tests/commands/test_mistakes.py` updates the file; read the difference aloud.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from effsparse_cli.cli import run
from tests.commands.conftest import SAMPLES
from tests.commands.mistakes import MISTAKES, make_files

GOLDEN = Path(__file__).parents[1] / "data" / "mistakes.txt"


def test_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    lines = []
    for line in MISTAKES.strip().splitlines():
        lines.append(f"$ {line}" if line.startswith("effsparse") else line)
        if line.startswith("effsparse"):
            code = run(shlex.split(line)[1:])
            out, err = capsys.readouterr()
            assert code in (1, 2, 3), line
            assert "Traceback" not in err, line
            lines.append(f"[{code}] {(err or out).replace(str(tmp_path), 'FOLDER').rstrip()}")
            assert bool(out) != bool(err), line
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"
    text = "\n".join(lines) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_there_are_at_least_forty() -> None:
    assert MISTAKES.count("\neffsparse ") >= 40


UNPRIVILEGED = """
import os, sys
from effsparse_cli.cli import run
assert run(["prune", "model.pt", "--target", "0.9", "-o", "open/out.pt"]) == 0  # imports what the second run needs
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
sys.exit(run(["prune", "model.pt", "--target", "0.9", "-o", "closed/out.pt"]))
"""


def test_a_read_only_folder_as_an_ordinary_user() -> None:
    with TemporaryDirectory() as private:  # not pytest's, which other users cannot enter
        folder = Path(private)
        shutil.copy(SAMPLES / "figure1.pt", folder / "model.pt")
        for name, mode in (("open", 0o755), ("closed", 0o555), (".", 0o755)):
            (folder / name).mkdir(exist_ok=True)
            (folder / name).chmod(mode)
        command = [sys.executable, "-c", UNPRIVILEGED]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert done.stderr == "error: -o closed/out.pt cannot be written: permission denied. Choose another path.\n"
        assert not list((folder / "closed").iterdir())


def test_a_closed_pipe_ends_the_run_without_a_message(tmp_path: Path) -> None:
    make_files(tmp_path)
    command = f"{shlex.quote(sys.executable)} -m effsparse_cli report lenet5.pt; echo code $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == "code 141\n"
