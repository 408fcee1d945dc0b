"""Formats of `effsparse report`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.report.analysis import csv, json, markdown, table
from effsparse_cli.report.analysis.page import AnalysisPage

FORMATS: dict[str, Callable[[AnalysisPage], str]] = {
    "table": table.render,
    "json": json.render,
    "csv": csv.render,
    "markdown": markdown.render,
}
