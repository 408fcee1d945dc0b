"""The table for people: the widest layout that fits the terminal, then what it means and what was assumed."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from effsparse_cli.formatting import compressions
from effsparse_cli.report.bars import GLYPHS, bar, scale
from effsparse_cli.report.columns import REASONS, Column, columns
from effsparse_cli.report.escape import escaping, plain
from effsparse_cli.report.meaning import assumptions, dead_neurons, headline, meaning, patterns, reasons

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts
    from effsparse_cli.report.page import Look, Page

GAP = 2
PROSE = 100
BARRED = ("direct", "effective")


@dataclass(frozen=True)
class Layout:
    """`names` is the room that names have at least, `bars` the cells of a bar, `without` the columns left out."""

    names: int
    bars: int
    without: frozenset[str] = frozenset()


# From the richest to the barest, each leaving out what the ones before it do; reasons shrink to their sum.
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
class Strip:
    """One column as it is printed: title, one cell per layer, the total."""

    title: str
    cells: list[Text]
    right: bool

    @cached_property
    def width(self) -> int:
        return max(cell_len(self.title), *(cell.cell_len for cell in self.cells))


@escaping(plain)
def render(page: Page) -> str:
    facts = columns(page)
    for layout in LAYOUTS:
        strips = _strips(page, facts, layout)
        spare = page.look.width - sum(strip.width + GAP for strip in strips.values()) + GAP
        if spare >= 0:
            strips = _strips(page, facts, replace(layout, names=layout.names + spare))
            break
    lines = (*_heading(page), *_lines(strips, page.look.unicode), *_legend(page, layout), *_prose(page, layout))
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


def _strips(page: Page, facts: dict[str, Column], layout: Layout) -> dict[str, Strip]:
    shown = [name for name in facts if name not in layout.without]
    if any(name in REASONS for name in shown):
        shown.remove("inactive")
    strips = {name: _plain(facts[name]) for name in shown}
    names = shorten(facts["layer"].cells, layout.names, "…" if page.look.unicode else "...")
    strips["layer"] = Strip("layer", [*map(Text, names), Text(facts["layer"].total, "bold")], right=False)
    for name in BARRED:
        strips[name] = _barred(page, facts[name], layout.bars, gap=name == "effective")
    return strips


def _plain(column: Column) -> Strip:
    return Strip(column.title, [*map(Text, column.cells), Text(column.total, "bold")], column.right)


def _barred(page: Page, column: Column, bars: int, gap: bool) -> Strip:
    """Percentages with their points in line, each with its bar; the total has its compression instead."""
    texts = _points_in_line([*column.cells, column.total])
    counts = [layer.counts for layer in page.layers]
    styles = [_style(c) if gap else "" for c in (*counts, page.analysis.totals)]
    cells = [Text(text, style) for text, style in zip(texts, styles, strict=True)]
    cells[-1].stylize("bold")
    if bars:
        totals = page.analysis.totals
        both = compressions([totals.kept, totals.active], totals.connections, "∞" if page.look.unicode else "inf")
        full = scale(layer.counts for layer in page.analysis.layers)
        marks = [bar(c, full, bars, page.look.unicode, gap) for c in counts]
        cells = [
            Text.assemble(cell, " ", mark) for cell, mark in zip(cells, [*marks, Text(both[gap], "bold")], strict=True)
        ]
    return Strip(column.title, cells, right=False)


def _points_in_line(percents: list[str]) -> list[str]:
    whole = [len(p.split(".")[0].removesuffix(" %")) for p in percents]
    before = max(whole)
    shifted = [" " * (before - digits) + p for digits, p in zip(whole, percents, strict=True)]
    width = max(map(len, shifted))
    return [p.ljust(width) for p in shifted]


def _style(counts: Counts) -> str:
    """The gap in colour: how much of what was kept is dead."""
    if not counts.inactive:
        return ""
    return "bold red" if 2 * counts.inactive >= counts.kept else "yellow"


def shorten(names: Sequence[str], width: int, ellipsis: str) -> list[str]:
    """Cut in the middle, as a name tells the block at its start and the weight at its end; but never so
    short that two names look the same."""
    cut = [_middle_cut(name, width, ellipsis) for name in names]
    while len(set(cut)) < len(set(names)):
        width += 1
        cut = [_middle_cut(name, width, ellipsis) for name in names]
    return cut


def _middle_cut(name: str, width: int, ellipsis: str) -> str:
    if cell_len(name) <= width:
        return name
    room = width - len(ellipsis)
    return set_cell_size(name, room // 2) + ellipsis + set_cell_size(name[::-1], room - room // 2)[::-1]


def _lines(strips: dict[str, Strip], unicode: bool) -> list[Text]:
    rows = [_line([(Text(s.title, "dim"), s) for s in strips.values()])]
    for i in range(len(strips["layer"].cells)):
        rows.append(_line([(s.cells[i], s) for s in strips.values()]))
    rule = ("─" if unicode else "-") * max(row.cell_len for row in rows)
    group = _group(strips, unicode)
    return [*group, *rows[:-1], Text(rule, "dim"), rows[-1]]


def _line(cells: list[tuple[Text, Strip]]) -> Text:
    padded = []
    for cell, strip in cells:
        blank = " " * (strip.width - cell.cell_len)
        padded.append(Text.assemble(blank, cell) if strip.right else Text.assemble(cell, blank))
    return Text(" " * GAP).join(padded)


def _group(strips: dict[str, Strip], unicode: bool) -> list[Text]:
    """The line over the reasons' columns that says what they are."""
    names = list(strips)
    reasons = [name for name in names if name in REASONS]
    if not reasons:
        return []
    before = sum(strips[name].width + GAP for name in names[: names.index(reasons[0])])
    width = sum(strips[name].width + GAP for name in reasons) - GAP
    title = " dead because "
    if len(title) > width:
        return [Text(title.strip().rjust(before + width), "dim")]
    return [Text(" " * before + title.center(width, "─" if unicode else "-"), "dim")]


def _heading(page: Page) -> list[Text]:
    facts = headline(page.analysis)
    if cell_len("   ".join([page.model, *facts])) <= page.look.width:
        return [Text.assemble((page.model, "bold"), "   ", ("   ".join(facts), "dim")), Text("")]
    return [Text(page.model, "bold"), *_wrapped("; ".join(facts), page.look, "dim"), Text("")]


def _legend(page: Page, layout: Layout) -> list[Text]:
    totals = page.analysis.totals
    if not layout.bars or totals.active == totals.connections:
        return []
    fullest = f"{scale(layer.counts for layer in page.analysis.layers):,.0f}x"
    extra = f"; {GLYPHS[page.look.unicode][1]} is what effective adds" if totals.inactive else ""
    return _wrapped(f"bars: compression on a log scale, full at {fullest}{extra}", page.look, "dim")


def _prose(page: Page, layout: Layout) -> list[Text]:
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
    width = min(look.width, PROSE)
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return [Text(line, style) for line in lines]
