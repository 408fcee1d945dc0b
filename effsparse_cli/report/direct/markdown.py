"""Markdown for pull requests: a table of tensors, and what cannot be known without a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.formatting import dims
from effsparse_cli.report.escape import markdown, markdown_code
from effsparse_cli.report.tables import markdown_row

if TYPE_CHECKING:
    from effsparse_cli.report.direct.page import DirectPage


def render(page: DirectPage) -> str:
    lines = ["| tensor | shape | weights | kept | direct |", "| --- | --- | ---: | ---: | ---: |"]
    lines += [markdown_row([markdown_code(row.name), dims(row.shape), *row.cells]) for row in page.rows]
    name, *cells = (f"**{cell}**" for cell in (page.total_name, *page.total.cells))
    lines.append(markdown_row([name, "", *cells]))
    notes = "\n".join(f"- {markdown(note)}" for note in page.notes)
    return f"**{markdown(page.title)}**\n\n" + "\n".join(lines) + f"\n\n{notes}\n"
