"""Damaged files through the command line, a small part of `python -m benchmarks.fuzz`: a clear error or a report,
no traceback, no hang, no crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzz import corpus, fuzz
from benchmarks.mutations import mutate

COUNT, PATIENCE = 200, 120.0
"""Only detects hangs, so it is generous: the test may run on a busy machine."""


def test_damaged_files(tmp_path: Path) -> None:
    ends, wrong = fuzz(range(COUNT), str(tmp_path), PATIENCE)
    assert not wrong
    assert sum(ends.values()) == COUNT
    assert ends["exit 3"] > COUNT // 2


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_makes_one_file(seed: int) -> None:
    (whole,) = corpus()[seed : seed + 1]
    assert mutate(whole.content, seed) == mutate(whole.content, seed)
    assert any(mutate(whole.content, other) != whole.content for other in range(5))
