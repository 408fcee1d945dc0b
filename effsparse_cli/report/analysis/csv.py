"""CSV for spreadsheets: one row per layer, then the totals. Infinite compressions are left empty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from effsparse_cli.analysis.groups import sum_known
from effsparse_cli.analysis.results import LayerResult
from effsparse_cli.formatting import dims
from effsparse_cli.report.escape import csv_cell, escaping
from effsparse_cli.report.tables import csv_text

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts
    from effsparse_cli.report.analysis.page import AnalysisPage

COUNTS = ("connections", "kept", "active", "no_input", "no_output", "both", "padding", "bias_carriers")
FIELDS = {"weights": "connections", "direct": "direct_sparsity", "effective": "effective_sparsity"}
"""Titles of chosen columns, where the table has another word."""
RATIOS = ("direct_sparsity", "effective_sparsity", "direct_compression", "effective_compression")
DEFAULT = ["op", "shape", *COUNTS, *RATIOS, "neurons", "dead_neurons", "pattern"]


@escaping(csv_cell)
def render(page: AnalysisPage) -> str:
    layers = page.analysis.layers
    total = LayerResult(
        name="total",
        op="",
        shape=(),
        counts=page.analysis.totals,
        neurons=sum(x.neurons for x in layers),
        dead_neurons=sum(x.dead_neurons for x in layers),
        multiply_adds=sum_known([x.multiply_adds for x in layers]),
        bytes=sum_known([x.bytes for x in layers]),
        active_bytes=sum_known([x.active_bytes for x in layers]),
    )
    titles = [FIELDS.get(name, name.replace("-", "_")) for name in page.columns] or DEFAULT
    rows = [_cells(layer, ["name", *titles]) for layer in (*page.layers, total)]
    return csv_text([["name", *titles], *rows])


def _cells(layer: LayerResult, titles: Sequence[str]) -> list[object]:
    known = layer._asdict() | {"shape": dims(layer.shape) if layer.shape else "", "inactive": layer.counts.inactive}
    known |= dict(zip((*COUNTS, *RATIOS), _numbers(layer.counts), strict=True))
    return ["" if known[title] is None else known[title] for title in titles]


def _numbers(counts: Counts) -> list[int | float | str]:
    ratios = [getattr(counts, name) for name in RATIOS]
    return [*(getattr(counts, name) for name in COUNTS), *(r if math.isfinite(r) else "" for r in ratios)]
