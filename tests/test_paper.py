"""The tables in docs/paper.md are the means of the results stored beside its pictures."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
TABLES = {
    "figure2.csv": ["synflow", "snip", "random uniform"],
    "quotas.csv": ["random uniform", "random erk", "random igq", "synflow"],
}


def read(name: str) -> list[dict[str, str]]:
    with open(DOCS / "studies" / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def mean(rows: Sequence[dict[str, str]], column: str) -> float:
    return sum(float(row[column]) for row in rows) / len(rows)


def describe(rows: Sequence[dict[str, str]], direct: bool) -> list[str]:
    """Return the cells of one method: the compression that is not the target, and the accuracy."""
    column = "final_effective_compression" if direct else "final_direct_compression"
    connected = [row for row in rows if row["final_effective_compression"]]
    reached = f"{mean(connected, column):,.0f}x" if connected else "disconnected"
    if connected and len(connected) < len(rows):
        reached += f" ({len(connected)} of {len(rows)} connected)"
    return [reached, f"{mean(rows, 'accuracy'):.3f}"]


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str) -> None:
    text, rows = (DOCS / "paper.md").read_text(encoding="utf-8"), read(name)
    assert {row["state"] for row in rows} == {"finished"}
    assert {f"{row['method']} {row['lsq']}".strip() for row in rows} == {*TABLES[name], "dense"}
    for target in sorted({float(row["compression"]) for row in rows} - {1.0}):
        cells = [f"{target:,.0f}x"]
        for label in TABLES[name]:
            of_method = [
                row
                for row in rows
                if f"{row['method']} {row['lsq']}".strip() == label and float(row["compression"]) == target
            ]
            cells += describe(of_method, direct=of_method[0]["effective"] == "False")
        assert f"| {' | '.join(cells)} |\n" in text
    dense = mean([row for row in rows if row["method"] == "dense"], "accuracy")
    assert f"the dense network has an accuracy of {dense:.3f}" in text
