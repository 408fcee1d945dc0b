"""CSV for spreadsheets: one row per line, point and seed. Infinite compressions are left empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.escape import csv_cell, escaping
from effsparse_cli.report.tables import csv_text

if TYPE_CHECKING:
    from effsparse_cli.report.curves.page import CurvePage

TITLES = ("curve", "seed", "kept", "active", "direct_compression", "effective_compression")


@escaping(csv_cell)
def render(page: CurvePage) -> str:
    rows: list[list[object]] = []
    for line in page.lines:
        for point in line.points:
            for seed, active in zip(line.seeds, point.active, strict=True):
                ratios = [page.connections / n if n else "" for n in (point.kept, active)]
                rows.append([line.name, seed, point.kept, active, *ratios])
    return csv_text([TITLES, *rows])
