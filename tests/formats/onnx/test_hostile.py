"""Small files that ask for too much are refused, or read without the cost."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.onnx.lowering import budget
from effsparse_cli.formats.options import LoadOptions
from tests.formats.onnx.hostile import nesting, sizes  # noqa: F401  (they fill the list)
from tests.formats.onnx.hostile.build import HOSTILE, Builder
from tests.formats.onnx.models import read

GIGABYTE = 1 << 30
HARMLESS = {
    "slow_resize", "eye_like", "branches", "pending", "long_chain", "many_masks", "many_branches", "regex",
    "split_text", "joined_text", "many_pieces", "running_sums", "long_sequence", "determinants",
}  # fmt: skip
"""Files that can be read, because what they ask for need not be computed."""


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Make large allocations fail, so that a bug here does not exhaust the memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * GIGABYTE, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory")
@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("build", HOSTILE, ids=lambda build: str(build.__name__))
def test_refused_before_the_cost(build: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_OPERATORS", 2_000)
    monkeypatch.setattr(budget, "MOST_ELEMENTS", 1 << 23)
    path = tmp_path / "m.onnx"
    path.write_bytes(build().SerializeToString())
    assert path.stat().st_size < 1_000_000
    if build.__name__ in HARMLESS:
        for layer in read(path, LoadOptions()).layers.values():
            layer.kept()
    else:
        with pytest.raises(LoadError) as caught:
            read(path, LoadOptions())
        assert "memory" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory")
@pytest.mark.parametrize("build", HOSTILE, ids=lambda build: str(build.__name__))
def test_command_stays_within_limits(build: Builder, tmp_path: Path) -> None:
    """At most 2 GB and 30 s of CPU time; the limits leave room for what libraries reserve."""
    (tmp_path / "m.onnx").write_bytes(build().SerializeToString())

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 * GIGABYTE, 4 * GIGABYTE))
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))

    command = [sys.executable, "-m", "effsparse_cli", "report", "m.onnx"]
    done = subprocess.run(command, cwd=tmp_path, preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode == (0 if build.__name__ in HARMLESS else 3), done.stderr
    assert "memory" not in done.stderr
