"""A table with its title, sentences and notes, as most results show themselves: as aligned text and as Markdown. Also
rows of cells as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from effsparse_cli.report.escape import escaped, markdown, markdown_code, printable
from effsparse_cli.report.look import Look, bullets, wrap

GAP = 2
MIN_NAME_WIDTH = 12


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells: a name, then numbers. `optional` columns are left out, group by group, in a narrow terminal."""

    title: str = ""
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: Sequence[str] | None = None
    optional: Sequence[Sequence[int]] = ()
    sentences: Sequence[str] = ()
    notes: Sequence[str] = ()


def to_text(table: Table, look: Look) -> str:
    """Return the table for terminals. Text from files is escaped, and widths are those of what is printed."""
    table = escaped(table, printable)
    lines = align_table(table.titles, table.rows, table.total, look, table.optional)
    title = [*wrap(table.title, look.width), ""] if table.title else []
    prose = [line for sentence in table.sentences for line in wrap(sentence, look.width)]
    prose += bullets(table.notes, look.width)
    return "\n".join([*title, *lines, *([""] if prose else []), *prose, ""])


def to_markdown(table: Table) -> str:
    """Return the table for pull requests and step summaries."""
    rows = [markdown_row([markdown_code(name), *map(markdown, cells)]) for name, *cells in table.rows]
    if table.total:
        rows.append(markdown_row([f"**{markdown(cell)}**" if cell else "" for cell in table.total]))
    rule = markdown_row(["---", *["---:"] * (len(table.titles) - 1)])
    parts = [f"**{markdown(table.title)}**"] if table.title else []
    parts.append("\n".join([markdown_row(map(markdown, table.titles)), rule, *rows]))
    parts += [" ".join(map(markdown, table.sentences))] if table.sentences else []
    parts += ["\n".join(f"- {markdown(note)}" for note in table.notes)] if table.notes else []
    return "\n\n".join(parts) + "\n"


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
