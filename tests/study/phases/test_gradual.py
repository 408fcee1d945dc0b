"""Gradual magnitude pruning: the schedule of the paper, and exact counts at its end."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.study.phases.gradual import CubicSchedule
from tests.study.tiny import make_task, run


def test_values_of_the_paper() -> None:
    """s_t = s_f + (s_i - s_f) (1 - (t - t_0) / (n dt))^3 at t = t_0, t_0 + dt, ..., t_0 + n dt."""
    schedule = CubicSchedule(initial=0.0, final=0.875, first=2000, every=100, count=50)
    assert schedule.at(2000) == 0.0
    assert schedule.at(2000 + 2500) == pytest.approx(0.875 - 0.875 / 8)
    assert schedule.at(2000 + 1000) == pytest.approx(0.875 * (1 - 0.8**3))
    assert schedule.at(2000 + 5000) == 0.875
    assert [schedule.at(step) for step in (0, 1999, 2050, 7100, 8000)] == [None] * 5


@given(st.floats(0, 0.5), st.floats(0.5, 1, exclude_max=True), st.integers(1, 40), st.integers(1, 9))
def test_sparsity_never_falls_and_ends_at_the_target(initial: float, final: float, count: int, every: int) -> None:
    schedule = CubicSchedule(initial, final, 3, every, count)
    found = [each for step in range(3 + count * every + 20) if (each := schedule.at(step)) is not None]
    assert len(found) == count + 1
    assert found[0] == pytest.approx(initial)
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(found))
    assert found[-1] == final


@pytest.mark.parametrize("lsq", ["", "global", "igq", "from:lamp"])
def test_counts_are_exact_for_every_quota(tmp_path: Path, lsq: str) -> None:
    result = run(make_task("gmp", 10, lsq=lsq, options={"every": 2}), tmp_path)
    assert abs(result["final"]["kept"] - 1984 / 10) <= 1
    with open(tmp_path / "curve.csv", encoding="utf-8") as file:
        compressions = [float(row["direct_compression"]) for row in csv.DictReader(file)]
    assert compressions == sorted(compressions)
    assert 1 < compressions[0] < compressions[-1]


def test_effective_target(tmp_path: Path) -> None:
    result = run(make_task("gmp", 10, lsq="igq", effective=True, options={"every": 3}), tmp_path)
    assert result["final"]["active"] == result["final"]["kept"]
    assert 199 <= result["final"]["active"] <= 205


@pytest.mark.parametrize(("begin", "end"), [(1.0, 1.0), (0.95, 1.0), (0.0, 0.0)])
def test_every_schedule_reaches_its_target(tmp_path: Path, begin: float, end: float) -> None:
    result = run(make_task("gmp", 10, options={"begin": begin, "end": end}), tmp_path)
    assert abs(result["final"]["kept"] - 198.4) <= 1


def test_training_shorter_than_a_step_of_the_schedule_is_pruned_at_its_end(tmp_path: Path) -> None:
    result = run(make_task("gmp", 10, epochs=3, options={"every": 100}), tmp_path)
    assert abs(result["final"]["kept"] - 198.4) <= 1
    with open(tmp_path / "curve.csv", encoding="utf-8") as file:
        compressions = [float(row["direct_compression"]) for row in csv.DictReader(file)]
    assert compressions == pytest.approx([1, 1, 10], rel=0.01)
