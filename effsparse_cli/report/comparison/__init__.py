"""Formats of `effsparse diff`."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.comparison.results import Comparison
from effsparse_cli.report.comparison import json, markdown, table

FORMATS: dict[str, Callable[[Comparison], str]] = {
    "table": table.render,
    "json": json.render,
    "markdown": markdown.render,
}
