"""Small files that describe gigabytes or hours of work are refused at once."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.formats.torch.checkpoint.hostile_costs import write_all

CODE = """
import resource, sys
from effsparse_cli.cli import run
import effsparse_cli.formats.torch
import torch
resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() if sys.platform == 'linux' else 2 << 30
resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 29),) * 2)
first, *files = sys.argv[1:]
for file in files:
    print('\\nexit', run([*first.split(), file]), file, flush=True)
print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write_all(tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize("command", ["report", pytest.param("report --direct-only", marks=pytest.mark.slow)])
def test_small_files_cost_little(files: dict[str, Path], command: str) -> None:
    """All files are read in one process, limited to 100 s and to 1.5 GiB more than importing torch needs."""
    assert all(file.stat().st_size < 1 << 20 for file in files.values())
    given = [sys.executable, "-c", CODE, command, *map(str, files.values())]
    done = subprocess.run(given, capture_output=True, text=True)
    ends = [line.split() for line in done.stdout.splitlines() if line.startswith("exit ")]
    codes = {Path(file).stem: code for _, code, file in ends}
    read = {file for file, code in codes.items() if code == "0"}
    assert set(codes.values()) == {"0", "3"}, done.stderr[-2000:]
    assert len(codes) == len(files), done.stderr[-2000:]
    assert "an-expanded-weight" in read
    assert len(read) == 1 or "direct" in command
    assert int(done.stdout.split()[-1]) < 2 << 20
