"""`effsparse quotas`: the allocations that methods.md gives, in every format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.commands.conftest import Run

LENET = ("quotas", "lenet300_uniform99.pt", "--target", "0.99")


def test_reference_values(effsparse: Run) -> None:
    found = json.loads(effsparse(*LENET, "--lsq", "igq,erk", "--lsq", "uniform", "-f", "json").out)
    shares = {
        lsq: [layer["kept"][lsq] / layer["connections"] for layer in found["layers"]]
        for lsq in found["layers"][0]["kept"]
    }
    assert shares["igq"] == pytest.approx([0.004618, 0.0351, 0.5218], rel=2e-3)
    assert shares["erk"] == pytest.approx([0.007697, 0.02227, 0.1837], rel=2e-3)
    assert shares["uniform"] == [0.01, 0.01, 0.01]
    assert all(sum(layer["kept"][lsq] for layer in found["layers"]) == 2662 for lsq in shares)


def test_formats_agree(effsparse: Run, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(effsparse(*LENET, "-f", "csv").out)))
    assert [row["name"] for row in rows] == ["fc1", "fc2", "fc3"]
    table = effsparse(*LENET).out
    assert all(f"{int(row['igq']):,}" in table for row in rows)
    assert effsparse(*LENET, "-o", tmp_path / "out").out == ""
    assert (tmp_path / "out").read_text(encoding="utf-8") == table


def test_global_and_from(effsparse: Run) -> None:
    outcome = effsparse(*LENET, "--lsq", "global,from:lamp", "--method", "lamp", "-f", "json")
    layers = json.loads(outcome.out)["layers"]
    assert all(layer["kept"]["lamp, global"] == layer["kept"]["from:lamp"] for layer in layers)


def test_out_of_reach_is_a_note_beside_others_and_an_error_alone(effsparse: Run) -> None:
    resnet = ("quotas", "resnet_small.pt2", "--target", "0.999")
    assert "uniform+ cannot reach" in " ".join(effsparse(*resnet, "--lsq", "uniform+,igq").out.split())
    alone = effsparse(*resnet, "--lsq", "uniform+")
    assert (alone.code, alone.out) == (2, "")
    assert "uniform+ cannot reach" in alone.message


@pytest.mark.parametrize(("file", "expected"), [("plot.gif", ".svg"), ("no/plot.svg", "does not exist")])
def test_plots_that_cannot_be_drawn(effsparse: Run, tmp_path: Path, file: str, expected: str) -> None:
    if not file.endswith(".gif"):
        pytest.importorskip("matplotlib")
    outcome = effsparse(*LENET, "--plot", tmp_path / file)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.message


def test_plot(effsparse: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg", "c.png"):
        assert effsparse(*LENET, "--plot", tmp_path / name).code == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
