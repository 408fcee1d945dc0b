"""Rows of cells as aligned text, as a Markdown table, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from effsparse_cli.report.look import Look

GAP = 2
MIN_NAME_WIDTH = 12


def align_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    total: Sequence[str] | None,
    look: Look,
    optional: Sequence[Sequence[int]] = (),
) -> list[str]:
    """Return the lines of a table that fits the width if possible.

    The first column holds names, which are shortened in a narrow terminal; the others are right-aligned numbers. If the
    table is still too wide, groups of `optional` columns are left out, in the given order.
    """
    for step in range(len(optional) + 1):
        omitted = {column for columns in optional[:step] for column in columns}
        table = [titles, *rows, total] if total else [titles, *rows]
        lines = _align([[cell for i, cell in enumerate(row) if i not in omitted] for row in table], look)
        longest = max(map(cell_len, lines))
        if longest <= look.width:
            break
    if total:
        lines.insert(-1, look.rule * longest)
    return lines


def _align(table: list[list[str]], look: Look) -> list[str]:
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    available = look.width - sum(widths[1:]) - GAP * len(widths[1:])
    if widths[0] > available:
        names = shorten_names([row[0] for row in table[1:]], max(available, MIN_NAME_WIDTH), look.ellipsis)
        table = [table[0], *([name, *row[1:]] for name, row in zip(names, table[1:], strict=True))]
        widths[0] = max(cell_len(row[0]) for row in table)
    return [_line(row, widths) for row in table]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0] + " " * (widths[0] - cell_len(row[0]))]
    cells += [" " * (width - cell_len(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True)]
    return (" " * GAP).join(cells).rstrip()


def shorten_names(names: Sequence[str], width: int, ellipsis: str) -> list[str]:
    """Cut names in the middle, since the start names the block and the end the weight. Distinct names stay distinct,
    even if that takes more than `width`."""
    short = [_cut_middle(name, width, ellipsis) for name in names]
    while len(set(short)) < len(set(names)):
        width += 1
        short = [_cut_middle(name, width, ellipsis) for name in names]
    return short


def _cut_middle(name: str, width: int, ellipsis: str) -> str:
    if cell_len(name) <= width:
        return name
    room = width - len(ellipsis)
    return set_cell_size(name, room // 2) + ellipsis + set_cell_size(name[::-1], room - room // 2)[::-1]


def markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
