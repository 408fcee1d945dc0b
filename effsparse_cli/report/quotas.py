"""Quotas side by side: what each leaves every layer, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from effsparse_cli.formatting import compressions, percents, thousands
from effsparse_cli.report.escape import csv_cell, escaping, json_text, plain
from effsparse_cli.report.grid import grid
from effsparse_cli.report.page import Look

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class QuotaPage:
    """`kept` by quota, one number per layer."""

    model: str
    target: str
    layers: Sequence[tuple[str, tuple[int, ...], int]]
    kept: dict[str, tuple[int, ...]]
    notes: tuple[str, ...] = ()
    look: Look = field(default_factory=Look)

    @property
    def connections(self) -> int:
        return sum(weights for *_, weights in self.layers)


@escaping(plain)
def render_table(page: QuotaPage) -> str:
    titles = ["layer", "weights", *(title for lsq in page.kept for title in (f"{lsq} kept", "density"))]
    rows = []
    for i, (name, _, weights) in enumerate(page.layers):
        rows.append([name, thousands(weights), *_cells([kept[i] for kept in page.kept.values()], weights)])
    sums = [sum(kept) for kept in page.kept.values()]
    total = ["total", thousands(page.connections), *_cells(sums, page.connections)]
    (ratio,) = compressions(sums[:1], page.connections, "inf")
    lines = [f"{page.model}: kept connections per layer at a direct sparsity of {page.target} ({ratio})", ""]
    notes = [
        line
        for note in page.notes
        for line in textwrap.wrap(f"- {note}", page.look.width, subsequent_indent="  ", break_on_hyphens=False)
    ]
    return "\n".join([*lines, *grid(titles, rows, total, page.look), *notes, ""])


def _cells(kept: Sequence[int], weights: int) -> list[str]:
    return [cell for number in kept for cell in (thousands(number), *percents([number], weights))]


def render_json(page: QuotaPage) -> str:
    layers = [
        {
            "name": name,
            "shape": list(shape),
            "connections": weights,
            "kept": {lsq: kept[i] for lsq, kept in page.kept.items()},
        }
        for i, (name, shape, weights) in enumerate(page.layers)
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "target": page.target,
        "connections": page.connections,
        "layers": layers,
        "notes": list(page.notes),
    }
    return json_text(document)


@escaping(csv_cell)
def render_csv(page: QuotaPage) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["name", "connections", *page.kept])
    for i, (name, _, weights) in enumerate(page.layers):
        rows.writerow([name, weights, *(kept[i] for kept in page.kept.values())])
    return text.getvalue()


FORMATS: dict[str, Callable[[QuotaPage], str]] = {"table": render_table, "json": render_json, "csv": render_csv}
