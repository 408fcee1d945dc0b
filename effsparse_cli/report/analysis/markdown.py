"""Markdown for pull requests and step summaries: a table, what it means, and what was assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.formatting import compressions
from effsparse_cli.report.analysis.columns import Column, build_columns
from effsparse_cli.report.analysis.meaning import assumptions, headline, meaning
from effsparse_cli.report.escape import markdown, markdown_code
from effsparse_cli.report.tables import markdown_row

if TYPE_CHECKING:
    from effsparse_cli.report.analysis.page import AnalysisPage

OMITTED = ("shape", "inactive")


def render(page: AnalysisPage) -> str:
    columns = {name: column for name, column in build_columns(page).items() if name not in OMITTED or page.columns}
    totals = page.analysis.totals
    ratios = compressions([totals.kept, totals.active], totals.connections, "infinite")
    compression = dict(zip(("direct", "effective"), ratios, strict=True))

    lines = [markdown_row(column.title for column in columns.values()), markdown_row(map(_rule, columns.values()))]
    for i in range(len(page.layers)):
        lines.append(markdown_row(_cell(name, column.cells[i]) for name, column in columns.items()))
    lines.append(markdown_row(_total(column.total, compression.get(name)) for name, column in columns.items()))

    parts = [f"**{markdown(page.model)}** ({markdown('; '.join(headline(page.analysis)))})", "\n".join(lines)]
    parts.append(" ".join(markdown(sentence) for sentence in meaning(page.analysis)))
    if notes := assumptions(page.analysis):
        parts.append("\n".join(f"- {markdown(note)}" for note in notes))
    return "\n\n".join(parts) + "\n"


def _rule(column: Column) -> str:
    return "---:" if column.right else "---"


def _cell(name: str, text: str) -> str:
    return markdown_code(text) if name == "layer" else markdown(text) if name == "op" else text


def _total(text: str, compression: str | None) -> str:
    return f"**{text}**" + (f" ({compression})" if compression else "") if text else ""
