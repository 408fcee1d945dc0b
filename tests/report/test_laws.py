"""Properties of every report: sums, widths, printable text, and true sentences."""

from __future__ import annotations

import csv
import io
import json
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from effsparse_cli.analysis.results import Analysis
from effsparse_cli.report.analysis import FORMATS
from effsparse_cli.report.analysis.columns import COUNTED, build_columns
from effsparse_cli.report.analysis.meaning import meaning
from effsparse_cli.report.analysis.page import build_page
from effsparse_cli.report.look import Look
from effsparse_cli.report.tables import shorten_names
from tests.report.analyses import analyses, unhurried
from tests.report.cases import CASES


def number(cell: str) -> int:
    return int(cell.replace(",", "") or 0)


@unhurried
@given(analyses())
def test_columns_sum_to_their_totals(analysis: Analysis) -> None:
    columns = build_columns(build_page("m", analysis))
    for name in COUNTED.keys() & columns.keys():
        assert sum(map(number, columns[name].cells)) == number(columns[name].total)
    for name in COUNTED.keys() - columns.keys():
        assert not any(getattr(layer.counts, COUNTED[name]) for layer in analysis.layers)


@unhurried
@given(analyses())
def test_kept_is_active_plus_inactive_by_reason(analysis: Analysis) -> None:
    (*rows, total) = csv.DictReader(io.StringIO(FORMATS["csv"](build_page("m", analysis))))
    for row in (*rows, total):
        parts = ("active", "no_input", "no_output", "both", "padding")
        assert int(row["kept"]) == sum(int(row[part]) for part in parts)
    for key in ("connections", "kept", "active", "bias_carriers", "neurons", "dead_neurons"):
        assert int(total[key]) == sum(int(row[key]) for row in rows)


@unhurried
@given(analyses(), st.integers(60, 220), st.booleans())
def test_table_fits_the_width_and_is_printable(analysis: Analysis, width: int, unicode: bool) -> None:
    text = FORMATS["table"](build_page("m", analysis, look=Look(width, unicode=unicode)))
    assert "\x1b" not in text
    assert unicode or text.isascii()
    assert all(cell_len(line) <= width and line == line.rstrip() for line in text.splitlines())


@unhurried
@given(analyses())
def test_colour_does_not_change_the_text(analysis: Analysis) -> None:
    plain, coloured = (FORMATS["table"](build_page("m", analysis, look=Look(100, colour))) for colour in (False, True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@unhurried
@given(analyses())
def test_unequal_sparsities_in_a_row_look_unequal(analysis: Analysis) -> None:
    columns = build_columns(build_page("m", analysis))
    for layer, direct, effective in zip(
        analysis.layers, columns["direct"].cells, columns["effective"].cells, strict=True
    ):
        assert (direct == effective) == (layer.counts.inactive == 0)


@unhurried
@given(analyses())
def test_json_agrees_with_the_analysis(analysis: Analysis) -> None:
    document = json.loads(FORMATS["json"](build_page("m", analysis)))
    totals = document["totals"]
    assert list(document)[:6] == ["schema_version", "model", "input_shapes", "totals", "layers", "notes"]
    for key in ("connections", "kept", "active"):
        assert totals[key] == sum(layer[key] for layer in document["layers"])
    assert (totals["effective_compression"] is None) == (totals["active"] == 0)
    assert totals["disconnected"] == analysis.disconnected
    for layer in document["layers"]:
        assert layer["kept"] == layer["active"] + sum(layer["inactive"].values())


@unhurried
@given(analyses())
def test_sentences_are_true(analysis: Analysis) -> None:
    text, totals = " ".join(meaning(analysis)), analysis.totals
    assert ("Nothing is pruned" in text) <= (totals.kept == totals.connections)
    assert ("disconnected" in text) == analysis.disconnected
    assert ("do nothing" in text or "does nothing" in text) <= (totals.inactive > 0 and totals.bias_carriers == 0)
    assert ("bias carrier" in text) == (totals.bias_carriers > 0)
    assert ("padding" in text) == (totals.padding > 0)
    if analysis.unknown:
        assert "Every kept connection is active" not in text
        assert "every connection is active" not in text


@unhurried
@given(st.lists(st.text(min_size=1), unique=True), st.integers(4, 40))
def test_shortened_names_stay_different(names: list[str], width: int) -> None:
    assert len(set(shorten_names(names, width, "..."))) == len(names)


def test_a_selection_of_layers_shows_the_whole_model_as_total() -> None:
    for form in ("table", "markdown"):
        text = FORMATS[form](build_page("m", CASES["headline"], ["fc1.*"]))
        assert "whole model" in text
        assert "266,200" in text
        assert "fc2" not in text
