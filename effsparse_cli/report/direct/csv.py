"""CSV for spreadsheets: one row per tensor, then the total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.formatting import dims
from effsparse_cli.report.escape import csv_cell, escaping
from effsparse_cli.report.tables import csv_text

if TYPE_CHECKING:
    from effsparse_cli.report.direct.page import DirectPage


@escaping(csv_cell)
def render(page: DirectPage) -> str:
    rows = [[row.name, dims(row.shape) if row.shape else "", *row.numbers.values()] for row in (*page.rows, page.total)]
    return csv_text([["name", "shape", *page.total.numbers], *rows])
