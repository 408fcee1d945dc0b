"""The compact form of a result, for notebooks: a table that is static without JavaScript, and sortable with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from effsparse_cli.arguments import to_arguments
from effsparse_cli.report.escape import escaped, printable
from effsparse_cli.report.html.check import build_check
from effsparse_cli.report.html.diff import build_diff_table, build_models, build_moves, strip_pictures
from effsparse_cli.report.html.filling import fill_template
from effsparse_cli.report.html.table import build_table, convert_table
from effsparse_cli.report.html.verdict import build_verdict

if TYPE_CHECKING:
    from effsparse_cli.report.analysis.page import AnalysisPage
    from effsparse_cli.report.comparison import Difference
    from effsparse_cli.report.findings.report import CheckReport
    from effsparse_cli.report.html.table import HtmlTable
    from effsparse_cli.report.tables import Table


def render_table(table: Table) -> str:
    """Return the table of any result."""
    return _fill(table, convert_table(escaped(table, printable)))


def render_report(page: AnalysisPage, table: Table) -> str:
    """Return the verdict and the table of a report; title and prose are those of its `table`."""
    shown = escaped(replace(page, analysis=replace(page.analysis, network=None, pictures={})), printable)
    return _fill(table, build_table(shown, grouped=False), verdict=build_verdict(shown.analysis))


def render_difference(difference: Difference) -> str:
    """Return the verdicts of two models side by side, and the layers that differ."""
    shown = strip_pictures(difference)
    table = build_diff_table(replace(shown, pairs=tuple(pair for pair in shown.pairs if pair.differs)), grouped=False)
    return _fill(difference.table(), table, models=build_models(shown), moves=build_moves(shown))


def render_check(report: CheckReport) -> str:
    """Return how many models pass, and the findings of each."""
    return _fill(replace(report.table(), notes=()), None, check=build_check(report))


def _fill(table: Table, cells: HtmlTable | None, **more: Any) -> str:
    shown = escaped(table, printable)
    return fill_template(
        "compact.html",
        **{"verdict": None, "models": (), "moves": (), "check": None, **more},
        title=shown.title,
        table=cells,
        sentences=shown.sentences,
        notes=[to_arguments(note) for note in shown.notes],
    )
