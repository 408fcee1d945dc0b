"""`report` with --depth, --columns, --quiet and --verbose, in every format."""

from __future__ import annotations

import csv
import json
import re

import pytest

from effsparse_cli.report.analysis.page import COLUMNS
from tests.commands.conftest import Run

LENET = "lenet5_igq.pt"


def test_depth_sums_counts_in_every_format(effsparse: Run) -> None:
    whole, grouped = (
        json.loads(effsparse("report", "resnet_small.pt2", "-f", "json", *depth).out) for depth in ([], ["--depth", 1])
    )
    assert grouped["totals"] == whole["totals"]
    assert [x["name"] for x in grouped["layers"]] == ["stem", "block1", "block2", "block3", "head"]
    for group in grouped["layers"]:
        members = [x for x in whole["layers"] if x["name"].split(".")[0] == group["name"]]
        assert group["active"] == sum(x["active"] for x in members)
    text = effsparse("report", "resnet_small.pt2", "--depth", 1).out
    assert re.search(r"\nblock3 +14,336 +191", text)
    assert "\ntotal" in text
    rows = list(csv.DictReader(effsparse("report", "resnet_small.pt2", "--depth", 1, "-f", "csv").out.splitlines()))
    assert [(row["name"], row["op"], row["shape"]) for row in rows[:2]] == [
        ("stem", "conv2d", "8x3x3x3"),
        ("block1", "2 layers", ""),
    ]
    assert "| `block3` | 3 layers |" in effsparse("report", "resnet_small.pt2", "--depth", 1, "-f", "markdown").out


def test_depth_groups_what_layers_selects(effsparse: Run) -> None:
    text = effsparse("report", "resnet_small.pt2", "--depth", 1, "--layers", "block3.*").out
    assert "block2" not in text
    assert "whole model" in text


def test_columns_are_chosen_and_ordered(effsparse: Run) -> None:
    chosen = ["report", LENET, "--columns", "multiply-adds,kept", "--columns", "Bytes"]
    assert re.search(r"layer +multiply-adds +kept +bytes\nconv1 +81,536 +104 +1,800\n", effsparse(*chosen).out)
    assert "| `conv2` | 12,800 | 128 | 9,600 |" in effsparse(*chosen, "-f", "markdown").out
    assert effsparse(*chosen, "-f", "csv").out.splitlines()[::6] == [
        "name,multiply_adds,kept,bytes",
        "total,94574,618,247080",
    ]
    costs = json.loads(effsparse(*chosen, "-f", "json").out)["costs"]
    assert costs["conv1"] == {"multiply_adds": 104 * 28 * 28, "bytes": 1800, "active_bytes": 416}


@pytest.mark.parametrize("format", ["table", "markdown", "csv"])
def test_every_column_can_be_shown(effsparse: Run, format: str) -> None:
    outcome = effsparse("report", LENET, "--format", format, "--columns", ",".join(COLUMNS))
    assert (outcome.code, outcome.err) == (0, "")
    titles = next(line for line in outcome.out.splitlines() if re.match(r"(layer|name|\| layer)\b", line))
    words = [name.split("-")[0] for name in COLUMNS if name != "weights" or format != "csv"]
    assert [word for word in words if not re.search(rf"\b{word}", titles)] == []


def test_quiet_is_one_line_per_model(effsparse: Run) -> None:
    assert effsparse("report", LENET, "-q").out == f"{LENET}: direct 99.00 %, effective 99.24 %\n"
    several = effsparse("report", LENET, "absent.pt", "figure1.pt", "-q")
    assert several.code == 3
    assert several.out.splitlines()[1] == "figure1.pt: direct 52.38 %, effective 76.19 %"
    assert several.err == "note: absent.pt: does not exist\n"


def test_verbose_shows_steps_without_a_terminal(effsparse: Run) -> None:
    outcome = effsparse("report", LENET, "-v")
    assert re.fullmatch(rf"reading {LENET}: \d+\.\d\d s\nmeasuring: \d+\.\d\d s\nrendering: \d+\.\d\d s\n", outcome.err)
    several = effsparse("report", LENET, "figure1.pt", "-v").err.splitlines()
    assert [line.split(":")[0] for line in several] == [
        f"  reading {LENET}",
        "  measuring",
        "  reading figure1.pt",
        "  measuring",
        "measuring 2 models",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--depth", "0"], "--depth 0: use 1 or more"),
        (["--depth", "two"], "--depth two: not an integer: use 1"),
        (["--columns", "kep"], "--columns kep: unknown; did you mean kept?"),
        (["-q", "-f", "json"], "--format cannot be used with --quiet"),
        (["-q", "--depth", "1"], "--depth cannot be used with --quiet"),
        (["--direct-only", "--columns", "kept"], "--columns cannot be used with --direct-only"),
        (["figure1.pt", "--depth", "1", "--sort", "gap"], "--sort and --depth cannot be used with several models"),
    ],
)
def test_wrong_options(effsparse: Run, options: list[str], expected: str) -> None:
    outcome = effsparse("report", LENET, *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.message
