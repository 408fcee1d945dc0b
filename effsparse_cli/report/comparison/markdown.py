"""Markdown for pull requests: the same rows and sentences as the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.report.comparison.rows import TITLES, build_rows, build_sentences
from effsparse_cli.report.escape import markdown, markdown_code
from effsparse_cli.report.tables import markdown_row

if TYPE_CHECKING:
    from effsparse_cli.comparison.results import Comparison


def render(comparison: Comparison) -> str:
    title = f"**{markdown(comparison.before_name)}** to **{markdown(comparison.after_name)}**"
    rows = [markdown_row([markdown_code(name), *cells]) for name, *cells in build_rows(comparison)]
    table = [markdown_row(TITLES), markdown_row(["---", *["---:"] * (len(TITLES) - 1)]), *rows]
    return "\n\n".join([title, "\n".join(table), *map(markdown, build_sentences(comparison))]) + "\n"
