"""A small part of `python -m benchmarks.fuzz --structure`: files with edited structures through every command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.structure.cases import make
from benchmarks.structure.corpus import samples

CASES = 34
"""Two per format."""


def fuzz(*options: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: children are forked, and this one has threads."""
    command = [sys.executable, "-m", "benchmarks.fuzz", "--structure", *options]
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment, check=False)


def test_edited_files_end_well() -> None:
    done = fuzz("--cases", str(CASES), "--seed", "18")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} edited files" in done.stdout


@pytest.mark.slow
def test_whole_files_are_read_by_every_command() -> None:
    """Otherwise the edits would test nothing but the first message."""
    done = fuzz("--whole")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_number_makes_one_case() -> None:
    for number in range(len(samples())):
        case = make(3, number)
        assert case == make(3, number)
        assert any(make(seed, number).files != case.files for seed in range(4))
