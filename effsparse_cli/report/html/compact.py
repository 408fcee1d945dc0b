"""The compact form of a result, for notebooks: a table that is static without JavaScript, and sortable with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from effsparse_cli.arguments import to_arguments
from effsparse_cli.report.escape import escaped, printable
from effsparse_cli.report.html.filling import fill_template
from effsparse_cli.report.html.table import build_table, convert_table
from effsparse_cli.report.html.verdict import build_verdict

if TYPE_CHECKING:
    from effsparse_cli.report.analysis.page import AnalysisPage
    from effsparse_cli.report.html.table import HtmlTable
    from effsparse_cli.report.html.verdict import Verdict
    from effsparse_cli.report.tables import Table


def render_table(table: Table) -> str:
    """Return the table of any result."""
    return _fill(table, convert_table(escaped(table, printable)))


def render_report(page: AnalysisPage, table: Table) -> str:
    """Return the verdict and the table of a report; title and prose are those of its `table`."""
    shown = escaped(replace(page, analysis=replace(page.analysis, network=None, pictures={})), printable)
    return _fill(table, build_table(shown, grouped=False), build_verdict(shown.analysis))


def _fill(table: Table, cells: HtmlTable, verdict: Verdict | None = None) -> str:
    shown = escaped(table, printable)
    return fill_template(
        "compact.html",
        title=shown.title,
        verdict=verdict,
        table=cells,
        sentences=shown.sentences,
        notes=[to_arguments(note) for note in shown.notes],
    )
