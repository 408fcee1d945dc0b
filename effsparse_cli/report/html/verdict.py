"""The verdict for HTML: direct against effective compression, what becomes of the kept connections, and facts about the
model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from effsparse_cli.formatting import compressions, percents, plural, thousands
from effsparse_cli.report.analysis.bars import find_scale
from effsparse_cli.report.analysis.meaning import assumptions, headline, meaning
from effsparse_cli.report.html.table import KINDS, Part, find_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effsparse_cli.analysis.results import Analysis, Counts


@dataclass(frozen=True)
class Measure:
    """One of the two compressions. `width` is the length of its bar, in percent of a log scale."""

    name: str
    compression: str
    sparsity: str
    count: str
    width: float


@dataclass(frozen=True)
class Share:
    """Kept connections of one kind; `number` and `percent` are texts."""

    kind: str
    number: str
    percent: str


@dataclass(frozen=True)
class Verdict:
    measures: tuple[Measure, Measure]
    shares: Sequence[Share]
    bar: Sequence[Part]
    sentences: Sequence[str]
    notes: Sequence[str]
    facts: Sequence[str]
    full: str
    state: str
    """The word for a style: disconnected, gap or clean."""


def build_verdict(analysis: Analysis) -> Verdict:
    totals = analysis.totals
    counts = (totals.kept, totals.active)
    ratios = compressions(counts, totals.connections, "∞")
    sparsities = percents([totals.connections - n for n in counts], totals.connections)
    full = find_scale([totals])
    measures = tuple(
        Measure(name, ratio, sparsity, f"{thousands(n)} of {thousands(totals.connections)} {state}", _width(bar, full))
        for name, state, ratio, sparsity, n, bar in zip(
            ("direct", "effective"),
            ("kept", "active"),
            ratios,
            sparsities,
            counts,
            (totals.direct_compression, totals.effective_compression),
            strict=True,
        )
    )
    return Verdict(
        measures=(measures[0], measures[1]),
        shares=_shares(totals),
        bar=find_parts(totals),
        sentences=meaning(analysis),
        notes=assumptions(analysis),
        facts=[*headline(analysis), plural(len(analysis.layers), "layer"), plural(totals.connections, "connection")],
        full=f"{full:,.0f}x",
        state="disconnected" if analysis.disconnected else "gap" if totals.inactive else "clean",
    )


def _shares(totals: Counts) -> list[Share]:
    numbers = {kind: getattr(totals, field) for kind, field in KINDS.items()}
    shown = {kind: number for kind, number in numbers.items() if number}
    texts = percents(list(shown.values()), totals.kept)
    return [Share(kind, thousands(n), percent) for (kind, n), percent in zip(shown.items(), texts, strict=True)]


def _width(ratio: float, full: float) -> float:
    return round(100 * math.log(ratio) / math.log(full), 2) if math.isfinite(ratio) else 100.0
