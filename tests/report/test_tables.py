"""Tables fit the width: names are shortened, then optional columns are left out."""

from __future__ import annotations

from rich.cells import cell_len

from effsparse_cli.report.look import Look
from effsparse_cli.report.tables import align_table

TITLES = ["layer", "weights", "kept before", "kept"]
ROWS = [["encoder.layers.0.self_attn", "3,072", "61", "23"], ["encoder.layers.1.linear", "2,048", "41", "20"]]
TOTAL = ["total", "5,120", "102", "43"]


def test_a_narrow_table_leaves_out_optional_columns() -> None:
    titles = {}
    for width in (120, 50, 40, 30, 20):
        lines = align_table(TITLES, ROWS, TOTAL, Look(width), ((2,), (1,)))
        assert max(map(cell_len, lines)) <= width
        assert len(lines) == 5
        assert lines[-1].split()[0] == "total"
        titles[width] = " ".join(lines[0].split())
    assert titles[120] == titles[50] == titles[40] == "layer weights kept before kept"
    assert (titles[30], titles[20]) == ("layer weights kept", "layer kept")


def test_without_optional_columns_nothing_is_left_out() -> None:
    assert " ".join(align_table(TITLES, ROWS, None, Look(20))[0].split()) == "layer weights kept before kept"
