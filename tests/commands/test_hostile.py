"""Files made to do harm, each tried with every command: nothing runs, nothing is written, memory stays small, and a
clear message ends with exit code 3."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.cli import run
from effsparse_cli.commands import COMMANDS
from tests.commands.hostile import (
    CANARY,
    MAKERS,
    evaluate,
    opened_process,
    script,
    system,
    system_legacy,
    system_module,
)

ROOT = Path(__file__).parents[2]
MEMORY_MB = 1200
"""Over what the imports take, which is about 400: enough for no bomb here."""
LINES = (
    "report FILE",
    "report FILE --direct-only",
    "report FILE --arch lenet-300-100",
    "report FILE --format html -o out.html",
    "check FILE",
    "diff FILE FILE",
    "prune FILE --target 0.9 --masks-only -o out.npz",
    "quotas FILE --target 0.9",
    "curve FILE",
    "repair FILE --target 0.9 --masks-only -o out.npz",
    "compact FILE -o out.onnx",
    "annotate FILE -o out.onnx",
)
"""Outputs that are valid for every format, so that only the input can be refused."""
HAS_GRAPH = ("--arch", "--direct-only")
"""Refused for an exported program before it is opened."""
TRY = """
import contextlib, io, json, resource, sys
from effsparse_cli.cli import run
ends = []
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(json.loads(line))
    ends.append([code, out.getvalue(), err.getvalue(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024])
print(json.dumps(ends))
"""


def run_all(commands: list[list[str]], folder: Path) -> list[Any]:
    """All in one process, so that a crash or a burst of memory shows."""
    done = subprocess.run(
        [sys.executable, "-c", TRY],
        input="\n".join(map(json.dumps, commands)),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ends: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return ends


def test_every_command_is_tried() -> None:
    assert {line.split()[0] for line in LINES} == set(COMMANDS) - {"methods", "archs", "man", "study"}


@pytest.mark.filterwarnings("ignore:Sparse")
def test_nothing_runs(tmp_path: Path) -> None:
    files = [make(tmp_path) for make in MAKERS]
    before = sorted(tmp_path.rglob("*"))
    commands = [line.replace("FILE", str(file)).split() for file in files for line in LINES]
    for command, (code, out, err, memory) in zip(commands, run_all(commands, tmp_path), strict=True):
        what = f"{command}: exit {code}, {memory} MB\n{out}{err}"
        told_before = command[1].endswith(".pt2") and any(word in command for word in HAS_GRAPH)
        told_before |= command[0] == "annotate"  # no file here is ONNX
        assert code == (2 if told_before else 3), what
        assert "Traceback" not in out + err, what
        assert len(out if command[0] == "check" else err) > 40, what
        assert memory < MEMORY_MB, what
    assert sorted(tmp_path.rglob("*")) == before
    assert not (tmp_path / CANARY).exists()


def test_the_canary_sings(tmp_path: Path) -> None:
    """Were the code run, it would show: with --trust it is."""
    for make in (system, system_legacy, system_module, evaluate, opened_process, script):
        folder = tmp_path / make.__name__
        folder.mkdir()
        with contextlib.chdir(folder), contextlib.redirect_stderr(io.StringIO()):
            run(["report", str(make(folder)), "--trust"])
            for _ in range(200):  # a process started by Popen runs in parallel
                if not (folder / CANARY).exists():
                    time.sleep(0.05)
        assert (folder / CANARY).exists(), make.__name__
