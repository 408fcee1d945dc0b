"""The result of `effsparse report` for several models: one line each, with the layer that has the largest gap."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from effsparse_cli.formatting import compressions, percents, plural, thousands
from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import csv_cell, escaping
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result, render_markdown, render_table
from effsparse_cli.report.tables import Table, csv_text

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import LayerResult
    from effsparse_cli.report.analysis.report import Report

SCHEMA_VERSION = 1
TITLES = ("model", "connections", "kept", "active", "direct_sparsity", "effective_sparsity", "worst_layer")


def render_json(overview: Overview) -> str:
    models = [json.loads(report.to_json()) for report in overview.reports]
    return json_text({"schema_version": SCHEMA_VERSION, "models": models, "problems": list(overview.problems)})


@escaping(csv_cell)
def render_csv(overview: Overview) -> str:
    rows: list[list[object]] = []
    for report in overview.reports:
        totals, worst = report.totals, find_worst(report)
        counts = (totals.connections, totals.kept, totals.active, totals.direct_sparsity, totals.effective_sparsity)
        rows.append([report.model, *counts, worst.name if worst else ""])
    return csv_text([TITLES, *rows])


@dataclass(frozen=True, repr=False)
class Overview(Result):
    """`problems` says which models could not be measured, and why."""

    reports: tuple[Report, ...]
    problems: tuple[str, ...] = ()
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = {
        "table": render_table,
        "json": render_json,
        "csv": render_csv,
        "markdown": render_markdown,
    }
    RECORDS: ClassVar[str] = "models"

    def table(self) -> Table:
        rows = []
        for report in self.reports:
            totals = report.totals
            direct, effective = percents(
                [totals.connections - totals.kept, totals.connections - totals.active], totals.connections
            )
            (ratio,) = compressions([totals.active], totals.connections, self.look.infinite)
            worst = find_worst(report)
            gap = (
                f"{worst.name} ({thousands(worst.counts.inactive)} of {thousands(worst.counts.kept)} dead)"
                if worst
                else ""
            )
            rows.append([report.model, thousands(totals.connections), direct, effective, ratio, gap])
        return Table(
            title=f"{plural(len(self.reports), 'model')} measured",
            titles=["model", "weights", "direct", "effective", "compressed", "layer with the largest gap"],
            rows=rows,
            optional=((1,), (4,), (5,)),
            notes=[*self.problems],
        )


def find_worst(report: Report) -> LayerResult | None:
    """Return the layer in which the largest share of connections is kept but inactive; None if there is none."""
    gaps = [layer for layer in report.layers if layer.counts.inactive]
    return max(gaps, key=lambda layer: layer.counts.inactive / layer.counts.connections, default=None)
