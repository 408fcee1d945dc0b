"""An SVG badge with the effective sparsity, for READMEs and model cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.formatting import percents
from effsparse_cli.report.html.filling import fill_template

if TYPE_CHECKING:
    from effsparse_cli.report.analysis.page import AnalysisPage

LABEL = "effective sparsity"
BLUE, RED = "#0072b2", "#b3261e"
MARGIN = 5
WIDTHS = {" ": 352, "%": 1076, ".": 364, "a": 601, "c": 521, "d": 623, "e": 596, "f": 352, "i": 274, "n": 633,
          "o": 607, "p": 623, "r": 427, "s": 521, "t": 394, "v": 592, "y": 592}  # fmt: skip
"""Widths of letters in Verdana, in thousandths of the font size. `textLength` fits other fonts to them."""
DIGIT, SIZE = 636, 11


def render(page: AnalysisPage) -> str:
    analysis, totals = page.analysis, page.analysis.totals
    (sparsity,) = percents([totals.connections - totals.active], totals.connections)
    value, colour = ("disconnected", RED) if analysis.disconnected else (sparsity, BLUE)
    widths = {"left": _width(LABEL), "right": _width(value)}
    return fill_template("badge.svg", label=LABEL, value=value, colour=colour, **widths)


def _width(text: str) -> int:
    return round(sum(WIDTHS.get(char, DIGIT) for char in text) * SIZE / 1000) + 2 * MARGIN
