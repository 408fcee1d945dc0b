"""The table for terminals: counts per layer, a summary in one sentence, and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effsparse_cli.formatting import compressions, percents, thousands
from effsparse_cli.report.escape import escaping, printable
from effsparse_cli.report.look import bullets, wrap
from effsparse_cli.report.tables import align_table

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts
    from effsparse_cli.report.changes.page import Change

OPTIONAL = ((5,), (1,), (2,), (4,))
"""Columns left out in a narrow terminal, in this order: direct, weights, the count before, active."""


@escaping(printable)
def render(change: Change) -> str:
    titles = ["layer", "weights", f"{change.column} before", "kept", "active", "direct", "effective"]
    before = {layer.name: layer.counts for layer in change.before.layers}
    rows = [[x.name, *_cells(change, before[x.name], x.counts)] for x in change.after.layers]
    total = ["total", *_cells(change, change.before.totals, change.after.totals)]
    lines = align_table(titles, rows, total, change.look, OPTIONAL)
    width = change.look.width
    return "\n".join([*lines, "", *wrap(_summary(change), width), *bullets(_notes(change), width), ""])


def _cells(change: Change, before: Counts, after: Counts) -> list[str]:
    zeros = [after.connections - after.kept, after.connections - after.active]
    numbers = (after.connections, getattr(before, change.column), after.kept, after.active)
    return [*map(thousands, numbers), *percents(zeros, after.connections)]


def _summary(change: Change) -> str:
    old, new = change.before.totals, change.after.totals
    was, now = compressions([old.active, new.active], new.connections, change.look.infinite)
    (sparsity,) = percents([new.connections - new.active], new.connections)
    text = (
        f"{change.model}: {thousands(new.active)} of {thousands(new.connections)} connections active, effective "
        f"sparsity {sparsity}, compressed {now} (before {was}); {', '.join(change.request.values())}"
    )
    written = f"Written to {change.written}" if change.written else "Nothing written; use -o FILE to save the result"
    return f"{text}. {written}."


def _notes(change: Change) -> list[str]:
    notes = []
    if change.wanted is not None and change.out_of_reach:
        step = f"cut the network at {change.cut}" if change.cut else "leave nothing active"
        notes.append(
            f"the target of {thousands(change.wanted)} connections is out of reach: the next step would {step}; "
            f"stopped at {thousands(change.reached)}{'. ' if change.hint else ''}{change.hint}"
        )
    elif change.wanted is not None and change.reached > change.wanted:
        more = change.reached - change.wanted
        notes.append(f"{thousands(more)} connections above the target: the next ones can only be removed together")
    if change.removed:
        notes.append(f"{thousands(change.removed)} inactive connections removed; --keep-inactive keeps them")
    return [*notes, *change.notes, *change.after.notes]
