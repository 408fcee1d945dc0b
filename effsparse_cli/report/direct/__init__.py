"""Formats of `effsparse report --direct-only`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.report.direct import csv, json, markdown, table
from effsparse_cli.report.direct.page import DirectPage

FORMATS: dict[str, Callable[[DirectPage], str]] = {
    "table": table.render,
    "json": json.render,
    "csv": csv.render,
    "markdown": markdown.render,
}
