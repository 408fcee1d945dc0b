"""The table for terminals: one row per tensor, then what cannot be known without a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.formatting import dims
from effsparse_cli.report.escape import escaping, printable
from effsparse_cli.report.look import bullets
from effsparse_cli.report.tables import align_table

if TYPE_CHECKING:
    from effsparse_cli.report.direct.page import DirectPage

TITLES = ("tensor", "shape", "weights", "kept", "direct")


@escaping(printable)
def render(page: DirectPage) -> str:
    rows = [[row.name, dims(row.shape), *row.cells] for row in page.rows]
    table = align_table(TITLES, rows, [page.total_name, "", *page.total.cells], page.look)
    return "\n".join([page.title, "", *table, "", *bullets(page.notes, page.look.width), ""])
