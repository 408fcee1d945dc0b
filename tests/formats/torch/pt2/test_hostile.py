"""Harmful exported programs, each passed to the commands that read and run programs."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from tests.formats.torch.pt2.hostile import CANARY, MAKERS

ROOT = Path(__file__).parents[4]
LINES = ("report FILE", "prune FILE --target 0.9 -o out.pt2", "repair FILE -o out.pt2", "compact FILE -o out.onnx")
TRY = """
import json, sys
from effsparse_cli.cli import run
for line in sys.stdin:
    print(json.dumps([run(json.loads(line)), line]), flush=True)
"""
GIGABYTES = 6
"""Limit of the address space; torch itself needs a large part of it."""


def run_all(commands: list[list[str]], folder: Path) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, GIGABYTES << 30))

    return subprocess.run(
        [sys.executable, "-c", TRY],
        input="\n".join(map(json.dumps, commands)),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit,
    )


def test_number_of_cases() -> None:
    assert len(MAKERS) >= 25


def test_nothing_is_executed(tmp_path: Path) -> None:
    files = [make(tmp_path) for make in MAKERS.values()]
    before = sorted(tmp_path.rglob("*"))
    commands = [line.replace("FILE", file.name).split() for line in LINES for file in files]
    done = run_all(commands, tmp_path)
    ends = [json.loads(each) for each in done.stdout.splitlines()]
    assert [end for end in ends if end[0] != 3] == [], done.stderr[-3000:]
    assert len(ends) == len(commands), done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    messages = [message for message in done.stderr.split("error: ") if message.strip()]
    assert len(messages) == len(commands)
    assert all(len(message) < 600 for message in messages)
    assert [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in path.parts] == before
    assert not (tmp_path / CANARY).exists()
    assert CANARY not in [text.strip() for text in (done.stdout + done.stderr).splitlines()]
