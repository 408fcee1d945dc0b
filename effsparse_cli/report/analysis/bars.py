"""Bars that show compression on a log scale: on a linear scale, 99 % and 99.9 % sparsity would look the same.

A bar has two parts: direct compression, and the extra effective compression (the gap).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts

GLYPHS = {True: ("█", "▒", "·"), False: ("#", "+", ".")}
MIN_SCALE = 10.0


def find_scale(layers: Iterable[Counts]) -> float:
    """Return the compression that fills a bar: the largest finite one, at least 10x."""
    ratios = (ratio for c in layers for ratio in (c.direct_compression, c.effective_compression))
    return max([MIN_SCALE, *(ratio for ratio in ratios if math.isfinite(ratio))])


def draw_bar(counts: Counts, *, full: float, width: int, unicode: bool, gap: bool) -> Text:
    """Draw the direct part, and with `gap` also the gap after it."""
    direct, effective = (_length(r, full, width) for r in (counts.direct_compression, counts.effective_compression))
    if counts.inactive and direct == effective:
        # A gap too small for the scale still takes one cell, because it is what readers look for.
        direct, effective = (direct, effective + 1) if effective < width else (direct - 1, effective)
    if not gap:
        effective = direct
    filled, extra, empty = GLYPHS[unicode]
    return Text.assemble(
        (filled * direct, "cyan"), (extra * (effective - direct), "bold red"), (empty * (width - effective), "dim")
    )


def _length(ratio: float, full: float, width: int) -> int:
    if not math.isfinite(ratio):
        return width
    return round(width * math.log(ratio) / math.log(full))
