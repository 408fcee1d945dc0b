"""What an analysis found, as text: one file per format, each a function from a page to a string."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.report import csv, json, markdown, table
from effsparse_cli.report.page import Page

FORMATS: dict[str, Callable[[Page], str]] = {
    "table": table.render,
    "json": json.render,
    "csv": csv.render,
    "markdown": markdown.render,
}
