"""The table for terminals: quotas side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from effsparse_cli.formatting import compressions, percents, thousands
from effsparse_cli.report.escape import escaping, printable
from effsparse_cli.report.look import bullets
from effsparse_cli.report.tables import align_table

if TYPE_CHECKING:
    from effsparse_cli.report.quotas.page import QuotaPage


@escaping(printable)
def render(page: QuotaPage) -> str:
    titles = ["layer", "weights", *(title for lsq in page.kept for title in (f"{lsq} kept", "density"))]
    rows = []
    for i, (name, _, weights) in enumerate(page.layers):
        rows.append([name, thousands(weights), *_cells([kept[i] for kept in page.kept.values()], weights)])
    sums = [sum(kept) for kept in page.kept.values()]
    total = ["total", thousands(page.connections), *_cells(sums, page.connections)]
    (ratio,) = compressions(sums[:1], page.connections, "inf")
    title = f"{page.model}: kept connections per layer at a direct sparsity of {page.target} ({ratio})"
    lines = align_table(titles, rows, total, page.look)
    return "\n".join([title, "", *lines, *bullets(page.notes, page.look.width), ""])


def _cells(kept: Sequence[int], weights: int) -> list[str]:
    return [cell for number in kept for cell in (thousands(number), *percents([number], weights))]
