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
    """One of the two compressions. `width` is the length of its bar on a log scale, in percent: that of the direct
    compression, followed by `extra` for what the effective compression adds."""

    name: str
    compression: str
    sparsity: str
    count: str
    width: float
    extra: float = 0.0


@dataclass(frozen=True)
class Share:
    """Kept connections of one kind; `number` and `percent` are texts."""

    kind: str
    number: str
    percent: str


@dataclass(frozen=True)
class Verdict:
    """`state` is a word for styles: disconnected, gap or clean."""

    measures: tuple[Measure, Measure]
    shares: Sequence[Share]
    bar: Sequence[Part]
    sentences: Sequence[str]
    notes: Sequence[str]
    facts: Sequence[str]
    state: str


def build_verdict(analysis: Analysis, beside: Sequence[Counts] = ()) -> Verdict:
    """Return the verdict of a model. Bars have the scale of the models that are shown `beside` it."""
    totals = analysis.totals
    parts = [totals.kept, totals.active]
    ratios = compressions(parts, totals.connections, "∞")
    sparsities = percents([totals.connections - part for part in parts], totals.connections)
    counts = [f"{thousands(part)} of {thousands(totals.connections)}" for part in parts]
    # An infinite compression fills the bar, and the direct one leaves room for it.
    full = find_scale([totals, *beside]) * (1 if all(counts.active for counts in (totals, *beside)) else 10)
    width, whole = (_width(ratio, full) for ratio in (totals.direct_compression, totals.effective_compression))
    measures = (
        Measure("direct", ratios[0], sparsities[0], f"{counts[0]} kept", width),
        Measure("effective", ratios[1], sparsities[1], f"{counts[1]} active", width, round(whole - width, 2)),
    )
    return Verdict(
        measures=measures,
        shares=_shares(totals),
        bar=find_parts(totals),
        sentences=meaning(analysis),
        notes=assumptions(analysis),
        facts=[*headline(analysis), plural(len(analysis.layers), "layer"), plural(totals.connections, "connection")],
        state="disconnected" if analysis.disconnected else "gap" if totals.inactive else "clean",
    )


def _shares(totals: Counts) -> list[Share]:
    numbers = {kind: getattr(totals, field) for kind, field in KINDS.items()}
    shown = {kind: number for kind, number in numbers.items() if number}
    texts = percents(list(shown.values()), totals.kept)
    return [Share(kind, thousands(n), percent) for (kind, n), percent in zip(shown.items(), texts, strict=True)]


def _width(ratio: float, full: float) -> float:
    return round(100 * math.log(ratio) / math.log(full), 2) if math.isfinite(ratio) else 100.0
