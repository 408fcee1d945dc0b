"""Tables of what can be chosen, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from effsparse_cli.report.document import json_text

SCHEMA_VERSION = 1
FORMATS = ("table", "json")
MIN_LAST, MAX_WIDTH, GAP = 30, 110, 2


def render_listing(format: str, key: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Render rows of equal keys. In the table, the last column is wrapped to the width of the terminal."""
    if format == "json":
        return json_text({"schema_version": SCHEMA_VERSION, key: [dict(row) for row in rows]})
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    left = sum(widths) + GAP * len(widths)
    last = max(min(get_terminal_size((100, 24)).columns, MAX_WIDTH) - left, MIN_LAST)
    lines = []
    for row in cells:
        start = "".join(cell.ljust(width + GAP) for cell, width in zip(row, widths, strict=False))
        first, *more = wrap(row[-1], last) or [""]
        lines += [f"{start}{first}".rstrip(), *(" " * left + line for line in more)]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list | tuple):
        return "x".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and value else str(value or "")
