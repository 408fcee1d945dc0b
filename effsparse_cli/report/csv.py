"""CSV for spreadsheets: one row per layer, then the total of the whole model; an infinite compression is empty."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

from effsparse_cli.formatting import dims
from effsparse_cli.report.escape import csv_cell, escaping

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts
    from effsparse_cli.report.page import Page

COUNTS = ("connections", "kept", "active", "no_input", "no_output", "both", "padding", "bias_carriers")
RATIOS = ("direct_sparsity", "effective_sparsity", "direct_compression", "effective_compression")


@escaping(csv_cell)
def render(page: Page) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["name", "op", "shape", *COUNTS, *RATIOS, "neurons", "dead_neurons", "pattern"])
    for x in page.layers:
        rows.writerow([x.name, x.op, dims(x.shape), *_numbers(x.counts), x.neurons, x.dead_neurons, x.pattern])
    everything = page.analysis.layers
    neurons, dead = sum(x.neurons for x in everything), sum(x.dead_neurons for x in everything)
    rows.writerow(["total", "", "", *_numbers(page.analysis.totals), neurons, dead, ""])
    return text.getvalue()


def _numbers(counts: Counts) -> list[int | float | str]:
    ratios = [getattr(counts, name) for name in RATIOS]
    return [*(getattr(counts, name) for name in COUNTS), *(r if math.isfinite(r) else "" for r in ratios)]
