"""Markdown for pull requests and step summaries: a GitHub table, what it means, what was assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.formatting import compressions
from effsparse_cli.report.columns import Column, columns
from effsparse_cli.report.escape import markdown, markdown_code
from effsparse_cli.report.meaning import assumptions, headline, meaning

if TYPE_CHECKING:
    from effsparse_cli.report.page import Page


def render(page: Page) -> str:
    shown = {name: column for name, column in columns(page).items() if name not in ("shape", "inactive")}
    totals = page.analysis.totals
    ratios = compressions([totals.kept, totals.active], totals.connections, "infinite")
    compression = dict(zip(("direct", "effective"), ratios, strict=True))

    lines = [_row([column.title for column in shown.values()]), _row([_rule(column) for column in shown.values()])]
    for i in range(len(page.layers)):
        lines.append(_row([_cell(name, column.cells[i]) for name, column in shown.items()]))
    lines.append(_row([_total(column.total, compression.get(name)) for name, column in shown.items()]))

    parts = [f"**{markdown(page.model)}** ({markdown('; '.join(headline(page.analysis)))})", "\n".join(lines)]
    parts.append(" ".join(markdown(sentence) for sentence in meaning(page.analysis)))
    if notes := assumptions(page.analysis):
        parts.append("\n".join(f"- {markdown(note)}" for note in notes))
    return "\n\n".join(parts) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(column: Column) -> str:
    return "---:" if column.right else "---"


def _cell(name: str, text: str) -> str:
    return markdown_code(text) if name == "layer" else markdown(text) if name == "op" else text


def _total(text: str, compression: str | None) -> str:
    return f"**{text}**" + (f" ({compression})" if compression else "") if text else ""
