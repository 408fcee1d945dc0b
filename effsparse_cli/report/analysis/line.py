"""One line per model, as `effsparse report --quiet` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.formatting import percents
from effsparse_cli.report.escape import escaping, printable

if TYPE_CHECKING:
    from effsparse_cli.report.analysis.report import Report


@escaping(printable)
def render_line(report: Report) -> str:
    totals = report.totals
    direct, effective = percents([totals.connections - n for n in (totals.kept, totals.active)], totals.connections)
    return f"{report.model}: direct {direct}, effective {effective}\n"
