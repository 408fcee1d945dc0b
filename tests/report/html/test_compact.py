"""Notebooks: a result is a table without JavaScript, and several results on one page do not disturb each other."""

from __future__ import annotations

from effsparse_cli.report.analysis.columns import build_columns
from effsparse_cli.report.analysis.report import Report
from effsparse_cli.report.html.compact import render_table
from effsparse_cli.report.tables import Table
from tests.report.cases import CASES, LANGUAGE
from tests.report.html.documents import Document

NAME = "<img src=x onerror=alert(1)> --only \n"


def test_a_report_shows_its_verdict_and_its_table() -> None:
    for case, analysis in CASES.items():
        report = Report.of(analysis, model=case)
        document = Document(report._repr_html_())
        columns = build_columns(report.page()).values()
        assert document.rows[0] == [column.title for column in columns]
        assert len(document.rows) == len(analysis.layers) + 2
        assert document.tags.count("script") == document.tags.count("style") == 1
        assert "id" not in dict(document.attributes), "two outputs would have the same ids"
        assert "table" in document.tags


def test_notes_name_arguments() -> None:
    text = Document(Report.of(LANGUAGE, model="m")._repr_html_()).text
    assert "count_embeddings counts them" in text
    assert "--" not in text


def test_names_are_text() -> None:
    table = Table(
        title=NAME, titles=["x", NAME], rows=[[NAME, "1"]], total=["total", "1"], sentences=[NAME], notes=[NAME]
    )
    document = Document(render_table(table))
    assert "img" not in document.tags
    assert document.rows == [["x", NAME.replace("\n", r"\n")], [NAME.replace("\n", r"\n"), "1"], ["total", "1"]]
