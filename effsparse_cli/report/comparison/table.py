"""The table for terminals: the layers that differ, the totals, and sentences about the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.comparison.rows import TITLES, build_rows, build_sentences
from effsparse_cli.report.escape import escaping, printable

if TYPE_CHECKING:
    from effsparse_cli.comparison.results import Comparison


@escaping(printable)
def render(comparison: Comparison) -> str:
    rows = [TITLES, *build_rows(comparison)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(TITLES))]
    lines = [
        "  ".join(f"{cell:{'<' if i == 0 else '>'}{widths[i]}}" for i, cell in enumerate(row)).rstrip() for row in rows
    ]
    title = f"{comparison.before_name} -> {comparison.after_name}"
    return "\n".join([title, "", *lines, "", *build_sentences(comparison)]) + "\n"
