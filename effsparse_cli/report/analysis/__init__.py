"""Formats of `effsparse report`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.report.analysis import badge, csv, json, markdown, model_explorer, table
from effsparse_cli.report.analysis.page import AnalysisPage

FORMATS: dict[str, Callable[[AnalysisPage], str]] = {
    "table": table.render,
    "json": json.render,
    "csv": csv.render,
    "markdown": markdown.render,
    "model-explorer": model_explorer.render,
    "badge": badge.render,
}
