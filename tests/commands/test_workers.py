"""`check` reports models that exceed a limit, and imports nothing from the current folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.checks.models import chain, write_mlp
from tests.commands.conftest import Run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are enforced on Linux")

MODULE = """
import numpy, time
def slow():
    time.sleep(3600)
def large():
    held = []
    while True:
        held.append(numpy.ones(1 << 20))
"""


@pytest.mark.parametrize(
    ("factory", "limit", "expected"),
    [
        ("slow", "time-limit = 0.5", "exceeded the time limit of 0.5 s"),
        ("large", 'memory-limit = "0.9GB"', "exceeded the memory limit of 0.9 GB"),
    ],
)
def test_check_says_who_exceeded_a_limit(
    effsparse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str, limit: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_mlp(tmp_path / "good.onnx", chain())
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "bad.pt")
    (tmp_path / "hostile.py").write_text(MODULE)
    (tmp_path / "effsparse.toml").write_text(f'[models."bad.pt"]\narch = "hostile:{factory}"\n{limit}\n')
    outcome = effsparse("check", "good.onnx", "bad.pt", "--trust")
    assert outcome.code == 3
    good, bad, last = outcome.out.splitlines()
    assert good.startswith("good.onnx: passes")
    assert bad.startswith("bad.pt: ")
    assert expected in bad
    assert last == "2 models checked: 1 passes, 1 could not be checked"


@pytest.mark.parametrize("options", [["--memory-limit", "much"], ["--memory-limit", "0GB"], ["--time-limit", "0"]])
def test_limits_that_are_none(effsparse: Run, options: list[str]) -> None:
    assert effsparse("check", "figure1.onnx", *options).code == 2


def test_nothing_in_the_current_folder_is_imported(tmp_path: Path) -> None:
    """Python looks for modules in the current folder first, unless configured otherwise. A pull request can add any."""
    for name in ("multiprocessing", "socket", "numpy", "json", "onnx"):
        (tmp_path / f"{name}.py").write_text("open('canary', 'w').close()\nraise SystemExit(7)\n")
    for name in "ab":
        write_mlp(tmp_path / f"{name}.onnx", chain())
    script = tmp_path / "bin" / "effsparse"
    script.parent.mkdir()
    script.write_text("from effsparse_cli.cli import main\nif __name__ == '__main__':\n    main()\n")
    command = [sys.executable, str(script), "check", "a.onnx", "b.onnx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "canary").exists()
