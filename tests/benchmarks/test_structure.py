"""A small part of `python -m benchmarks.fuzz --structure`: run every command on files with edited structures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.structure.cases import make
from benchmarks.structure.corpus import samples

CASES = 17
"""One per format."""


def fuzz(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer in a separate process, because it forks and this process has threads."""
    command = [sys.executable, "-m", "benchmarks.fuzz", "--structure", *options]
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment, check=False)


def test_edited_files_never_crash() -> None:
    done = fuzz("--cases", str(CASES), "--seed", "18")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} edited files" in done.stdout


@pytest.mark.slow
def test_every_command_reads_unedited_files() -> None:
    """Otherwise the edits would only test the first error message."""
    done = fuzz("--whole")
    assert done.returncode == 0, done.stdout + done.stderr


def test_case_is_reproducible() -> None:
    for number in range(len(samples())):
        case = make(3, number)
        assert case == make(3, number)
        assert any(make(seed, number).files != case.files for seed in range(4))
