"""CSV for spreadsheets: one row per layer, one column per quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.escape import csv_cell, escaping
from effsparse_cli.report.tables import csv_text

if TYPE_CHECKING:
    from effsparse_cli.report.quotas.page import QuotaPage


@escaping(csv_cell)
def render(page: QuotaPage) -> str:
    rows = [
        [name, weights, *(kept[i] for kept in page.kept.values())] for i, (name, _, weights) in enumerate(page.layers)
    ]
    return csv_text([["name", "connections", *page.kept], *rows])
