"""Rows of text become aligned lines: the plain tables of pruning, quotas and curves."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from effsparse_cli.report.page import Look
from effsparse_cli.report.table import shorten

GAP = 2
NARROWEST = 12


def grid(titles: Sequence[str], rows: Sequence[Sequence[str]], total: Sequence[str] | None, look: Look) -> list[str]:
    """The first column is names, shortened where the place is narrow; the others are numbers, set right."""
    body = [list(row) for row in rows] + ([list(total)] if total else [])
    widths = [max(cell_len(row[i]) for row in [list(titles), *body]) for i in range(len(titles))]
    spare = look.width - sum(widths[1:]) - GAP * len(widths[1:])
    if widths[0] > spare:
        names = shorten([row[0] for row in body], max(spare, NARROWEST), "…" if look.unicode else "...")
        body = [[name, *row[1:]] for name, row in zip(names, body, strict=True)]
        widths[0] = max(cell_len(row[0]) for row in [list(titles), *body])
    lines = [_line(row, widths) for row in [list(titles), *body]]
    if total:
        lines.insert(-1, ("─" if look.unicode else "-") * max(map(cell_len, lines)))
    return lines


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0] + " " * (widths[0] - cell_len(row[0]))]
    cells += [" " * (width - cell_len(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True)]
    return (" " * GAP).join(cells).rstrip()
