"""Rows of text become aligned lines: the plain tables of pruning, quotas and curves."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from effsparse_cli.report.page import Look
from effsparse_cli.report.table import shorten

GAP = 2
NARROWEST = 12


def grid(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    total: Sequence[str] | None,
    look: Look,
    dispensable: Sequence[Sequence[int]] = (),
) -> list[str]:
    """The first column is names, shortened where the place is narrow; the others are numbers, set right. Where that is
    not enough, columns that can be done without go, in the order given."""
    for step in range(len(dispensable) + 1):
        gone = {column for columns in dispensable[:step] for column in columns}
        table = [titles, *rows, total] if total else [titles, *rows]
        lines = _aligned([[cell for i, cell in enumerate(row) if i not in gone] for row in table], look)
        longest = max(map(cell_len, lines))
        if longest <= look.width:
            break
    if total:
        lines.insert(-1, ("─" if look.unicode else "-") * longest)
    return lines


def _aligned(table: list[list[str]], look: Look) -> list[str]:
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    spare = look.width - sum(widths[1:]) - GAP * len(widths[1:])
    if widths[0] > spare:
        names = shorten([row[0] for row in table[1:]], max(spare, NARROWEST), "…" if look.unicode else "...")
        table = [table[0], *([name, *row[1:]] for name, row in zip(names, table[1:], strict=True))]
        widths[0] = max(cell_len(row[0]) for row in table)
    return [_line(row, widths) for row in table]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0] + " " * (widths[0] - cell_len(row[0]))]
    cells += [" " * (width - cell_len(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True)]
    return (" " * GAP).join(cells).rstrip()
