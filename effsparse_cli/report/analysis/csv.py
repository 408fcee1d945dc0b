"""CSV for spreadsheets: one row per layer, then the totals. Infinite compressions are left empty."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from effsparse_cli.formatting import dims
from effsparse_cli.report.escape import csv_cell, escaping
from effsparse_cli.report.tables import csv_text

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts
    from effsparse_cli.report.analysis.page import AnalysisPage

COUNTS = ("connections", "kept", "active", "no_input", "no_output", "both", "padding", "bias_carriers")
RATIOS = ("direct_sparsity", "effective_sparsity", "direct_compression", "effective_compression")


@escaping(csv_cell)
def render(page: AnalysisPage) -> str:
    titles = ["name", "op", "shape", *COUNTS, *RATIOS, "neurons", "dead_neurons", "pattern"]
    rows = [
        [x.name, x.op, dims(x.shape), *_numbers(x.counts), x.neurons, x.dead_neurons, x.pattern] for x in page.layers
    ]
    layers = page.analysis.layers
    neurons, dead = sum(x.neurons for x in layers), sum(x.dead_neurons for x in layers)
    total = ["total", "", "", *_numbers(page.analysis.totals), neurons, dead, ""]
    return csv_text([titles, *rows, total])


def _numbers(counts: Counts) -> list[int | float | str]:
    ratios = [getattr(counts, name) for name in RATIOS]
    return [*(getattr(counts, name) for name in COUNTS), *(r if math.isfinite(r) else "" for r in ratios)]
