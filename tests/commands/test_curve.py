"""`effsparse curve`: exact points, the same ones in every format, and where the network disconnects."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.commands.conftest import Run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    torch.save(nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 10)), tmp_path / "dense.pt")
    return tmp_path / "dense.pt"


def curves(effsparse: Run, *arguments: object) -> list[dict[str, Any]]:
    outcome = effsparse("curve", *arguments, "--format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(outcome.out)["curves"]
    return found


def test_points_are_what_pruning_gives(effsparse: Run, model: Path) -> None:
    (curve,) = curves(effsparse, model, "--lsq", "global", "--points", 9)
    assert (curve["points"][0], len(curve["points"])) == ({"kept": 1500, "active": [1500]}, 9)
    for point in curve["points"]:
        options = ["--lsq", "global", "--direct", "--target", f"{1500 - point['kept']}/1500", "--format", "json"]
        assert json.loads(effsparse("prune", model, *options).out)["after"]["active"] == point["active"][0]


def test_the_last_connected_network(effsparse: Run, model: Path) -> None:
    (curve,) = curves(effsparse, model, "--method", "random", "--lsq", "igq", "--seeds", 3)
    assert curve["seeds"] == [0, 1, 2]
    for kept, seed in zip((last["kept"] for last in curve["last_connected"]), curve["seeds"], strict=True):
        assert all(p["active"][seed] == 0 for p in curve["points"] if p["kept"] < kept)
        assert all(p["active"][seed] > 0 for p in curve["points"] if p["kept"] >= kept)


def test_formats_agree(effsparse: Run, model: Path, tmp_path: Path) -> None:
    options = (model, "--method", "random", "--lsq", "uniform,igq", "--seeds", 2, "--points", 5)
    rows = list(csv.DictReader(io.StringIO(effsparse("curve", *options, "-f", "csv").out)))
    points = [
        (curve["name"], str(seed), str(point["kept"]), str(active))
        for curve in curves(effsparse, *options)
        for point in curve["points"]
        for seed, active in zip(curve["seeds"], point["active"], strict=True)
    ]
    assert [(row["curve"], row["seed"], row["kept"], row["active"]) for row in rows] == points
    table = effsparse("curve", *options).out
    assert "disconnected beyond a direct compression of" in table
    assert effsparse("curve", *options, "-o", tmp_path / "out").out == ""
    assert (tmp_path / "out").read_text(encoding="utf-8") == table


def test_seeds_matter_only_to_chance(effsparse: Run, model: Path) -> None:
    lines = curves(effsparse, model, "--method", "magnitude,random", "--seeds", 5, "--points", 3)
    assert [curve["seeds"] for curve in lines] == [[0], [0, 1, 2, 3, 4]]
    assert effsparse("curve", model, "--seeds", 5).code == 2


@pytest.mark.parametrize("options", [["--seeds", 0], ["--points", 1], ["--lsq", "nosuch"], ["--plot", "x.gif"]])
def test_wrong_usage(effsparse: Run, model: Path, options: list[object]) -> None:
    outcome = effsparse("curve", model, *options)
    assert (outcome.code, outcome.out) == (2, "")


def test_plot(effsparse: Run, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = ("curve", model, "--method", "random", "--lsq", "uniform,igq", "--seeds", 2)
    for name in ("a.svg", "b.svg"):
        assert effsparse(*options, "--plot", tmp_path / name).code == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    text = (tmp_path / "a.svg").read_text()
    assert all(expected in text for expected in ("direct compression", "random, igq", "last connected network"))
