"""Formats of `effsparse report`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.report.analysis import badge, csv, json, markdown, model_explorer, table
from effsparse_cli.report.analysis.page import AnalysisPage


def _render_html(page: AnalysisPage) -> str:
    # Imported here, because this page is made from other formats.
    from effsparse_cli.report.html.page import render

    return render(page)


FORMATS: dict[str, Callable[[AnalysisPage], str]] = {
    "table": table.render,
    "json": json.render,
    "csv": csv.render,
    "markdown": markdown.render,
    "html": _render_html,
    "model-explorer": model_explorer.render,
    "badge": badge.render,
}
