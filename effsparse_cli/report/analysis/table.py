"""The table for terminals: the widest layout that fits, then what it means and what was assumed."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from effsparse_cli.formatting import compressions
from effsparse_cli.report.analysis.bars import GLYPHS, draw_bar, find_scale
from effsparse_cli.report.analysis.columns import REASONS, Column, build_columns
from effsparse_cli.report.analysis.meaning import assumptions, dead_neurons, headline, meaning, patterns, reasons
from effsparse_cli.report.escape import escaping, printable
from effsparse_cli.report.look import Look, wrap
from effsparse_cli.report.tables import GAP, shorten_names

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts
    from effsparse_cli.report.analysis.page import AnalysisPage

MAX_PROSE_WIDTH = 100
WITH_BARS = ("direct", "effective")


@dataclass(frozen=True)
class Layout:
    """`names` is the minimum width of the names, `bars` the width of a bar, `without` the columns left out."""

    names: int
    bars: int
    without: frozenset[str] = frozenset()


# From wide to narrow. Each step leaves out its columns and those of the steps before it.
STEPS: tuple[tuple[int, int, Iterable[str]], ...] = (
    (60, 20, ()),
    (60, 10, ()),
    (40, 10, ["shape"]),
    (40, 6, ()),
    (32, 6, ["op"]),
    (24, 6, ["dead neurons", "pattern"]),
    (24, 6, REASONS),
    (24, 6, ["bias carriers"]),
    (24, 6, ["weights"]),
    (16, 6, ["kept"]),
    (16, 0, ()),
    (12, 0, ["inactive"]),
    (12, 0, ["active"]),
)
LAYOUTS = tuple(
    Layout(names, bars, frozenset(name for *_, left_out in STEPS[:step] for name in left_out))
    for step, (names, bars, _) in enumerate(STEPS, start=1)
)


@dataclass(frozen=True)
class StyledColumn:
    """A column as it is printed: the title, one cell per layer, and the total as the last cell."""

    title: str
    cells: list[Text]
    right: bool

    @cached_property
    def width(self) -> int:
        return max(cell_len(self.title), *(cell.cell_len for cell in self.cells))


@escaping(printable)
def render(page: AnalysisPage) -> str:
    columns = build_columns(page)
    # Columns that were chosen are never left out.
    for layout in [replace(each, without=frozenset()) for each in LAYOUTS] if page.columns else LAYOUTS:
        styled = _styled_columns(page, columns, layout)
        spare = page.look.width - sum(column.width + GAP for column in styled.values()) + GAP
        if spare >= 0:
            styled = _styled_columns(page, columns, replace(layout, names=layout.names + spare))
            break
    lines = (*_heading(page), *_lines(styled, page.look), *_legend(page, layout), *_prose(page, layout))
    return _print(lines, page.look)


def _print(lines: Iterable[Text], look: Look) -> str:
    text = io.StringIO()
    system: Literal["standard"] | None = "standard" if look.colour else None
    console = Console(
        file=text,
        width=look.width,
        force_terminal=look.colour,
        color_system=system,
        legacy_windows=False,
        no_color=False,
    )
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True, highlight=False)
    return text.getvalue()


def _styled_columns(page: AnalysisPage, columns: dict[str, Column], layout: Layout) -> dict[str, StyledColumn]:
    shown = [name for name in columns if name not in layout.without]
    if any(name in REASONS for name in shown) and not page.columns:
        shown.remove("inactive")
    styled = {name: _without_bars(columns[name]) for name in shown}
    names = shorten_names(columns["layer"].cells, layout.names, page.look.ellipsis)
    styled["layer"] = StyledColumn("layer", [*map(Text, names), Text(columns["layer"].total, "bold")], right=False)
    for name in set(WITH_BARS) & set(shown):
        styled[name] = _with_bars(page, columns[name], layout.bars, gap=name == "effective")
    return styled


def _without_bars(column: Column) -> StyledColumn:
    return StyledColumn(column.title, [*map(Text, column.cells), Text(column.total, "bold")], column.right)


def _with_bars(page: AnalysisPage, column: Column, bars: int, gap: bool) -> StyledColumn:
    """Align percentages at the decimal point and draw a bar after each; the total has its compression instead."""
    texts = _align_points([*column.cells, column.total])
    counts = [layer.counts for layer in page.layers]
    styles = [_style(c) if gap else "" for c in (*counts, page.analysis.totals)]
    cells = [Text(text, style) for text, style in zip(texts, styles, strict=True)]
    cells[-1].stylize("bold")
    if bars:
        totals = page.analysis.totals
        both = compressions([totals.kept, totals.active], totals.connections, page.look.infinite)
        full = find_scale(layer.counts for layer in page.analysis.layers)
        drawn = [draw_bar(c, full=full, width=bars, unicode=page.look.unicode, gap=gap) for c in counts]
        cells = [
            Text.assemble(cell, " ", bar) for cell, bar in zip(cells, [*drawn, Text(both[gap], "bold")], strict=True)
        ]
    return StyledColumn(column.title, cells, right=False)


def _align_points(percents: list[str]) -> list[str]:
    digits = [len(p.split(".")[0].removesuffix(" %")) for p in percents]
    shifted = [" " * (max(digits) - n) + p for n, p in zip(digits, percents, strict=True)]
    width = max(map(len, shifted))
    return [p.ljust(width) for p in shifted]


def _style(counts: Counts) -> str:
    """Return the colour of the gap: red if at least half of the kept connections are inactive."""
    if not counts.inactive:
        return ""
    return "bold red" if 2 * counts.inactive >= counts.kept else "yellow"


def _lines(columns: dict[str, StyledColumn], look: Look) -> list[Text]:
    rows = [_line([(Text(column.title, "dim"), column) for column in columns.values()])]
    for i in range(len(columns["layer"].cells)):
        rows.append(_line([(column.cells[i], column) for column in columns.values()]))
    rule = look.rule * max(row.cell_len for row in rows)
    return [*_group_title(columns, look), *rows[:-1], Text(rule, "dim"), rows[-1]]


def _line(cells: list[tuple[Text, StyledColumn]]) -> Text:
    padded = []
    for cell, column in cells:
        blank = " " * (column.width - cell.cell_len)
        padded.append(Text.assemble(blank, cell) if column.right else Text.assemble(cell, blank))
    return Text(" " * GAP).join(padded)


def _group_title(columns: dict[str, StyledColumn], look: Look) -> list[Text]:
    """Return the common title above the columns of reasons."""
    names = list(columns)
    reasons = [name for name in names if name in REASONS]
    if not reasons:
        return []
    before = sum(columns[name].width + GAP for name in names[: names.index(reasons[0])])
    width = sum(columns[name].width + GAP for name in reasons) - GAP
    title = " dead because "
    if len(title) > width:
        return [Text(title.strip().rjust(before + width), "dim")]
    return [Text(" " * before + title.center(width, look.rule), "dim")]


def _heading(page: AnalysisPage) -> list[Text]:
    facts = headline(page.analysis)
    if cell_len("   ".join([page.model, *facts])) <= page.look.width:
        return [Text.assemble((page.model, "bold"), "   ", ("   ".join(facts), "dim")), Text("")]
    return [Text(page.model, "bold"), *_wrapped("; ".join(facts), page.look, "dim"), Text("")]


def _legend(page: AnalysisPage, layout: Layout) -> list[Text]:
    totals = page.analysis.totals
    shown = {*page.columns} & {*WITH_BARS} or not page.columns
    if not layout.bars or totals.active == totals.connections or not shown:
        return []
    full = f"{find_scale(layer.counts for layer in page.analysis.layers):,.0f}x"
    gap = f"; {GLYPHS[page.look.unicode][1]}: extra effective compression" if totals.inactive else ""
    return _wrapped(f"bars: compression on a log scale, full at {full}{gap}", page.look, "dim")


def _prose(page: AnalysisPage, layout: Layout) -> list[Text]:
    sentences = meaning(page.analysis)
    if "dead neurons" in layout.without:
        sentences += dead_neurons(page.analysis) + patterns(page.analysis)
    if layout.without & REASONS.keys():
        sentences += reasons(page.analysis.totals)
    lines = [Text(""), *_wrapped(" ".join(sentences), page.look, "")]
    for note in assumptions(page.analysis):
        lines += _wrapped(f"- {note}", page.look, "dim", indent="  ")
    return lines


def _wrapped(text: str, look: Look, style: str, indent: str = "") -> list[Text]:
    return [Text(line, style) for line in wrap(text, min(look.width, MAX_PROSE_WIDTH), indent)]
