"""What pruning or repairing did: analyses before and after enter, a short table with one line that sums it up or JSON
leaves."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from effsparse_cli.formatting import compressions, percents, thousands
from effsparse_cli.report.escape import escaping, json_text, plain
from effsparse_cli.report.grid import grid
from effsparse_cli.report.page import Look

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts

SCHEMA_VERSION = 1
NARROW = ((5,), (1,), (2,), (4,))
"""Columns that a narrow terminal goes without, in this order: direct, weights, what was before, active."""


@dataclass(frozen=True)
class Change:
    """`asked` is the plan in the user's words, by option; `wanted` a number of connections, kept where `direct`,
    otherwise active, None where none was asked for; `out_of_reach` if one step more leaves nothing active, `cut` the
    layer that it cuts, `way_on` what would go there all the same. `column` is the count that is shown as it was before,
    `details` goes into the JSON alone."""

    model: str
    written: str | None
    asked: Mapping[str, str]
    wanted: int | None
    direct: bool
    removed: int
    out_of_reach: bool
    cut: str | None
    before: Analysis
    after: Analysis
    notes: tuple[str, ...] = ()
    look: Look = field(default_factory=Look)
    column: str = "active"
    way_on: str = "--allow-disconnected goes on"
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def got(self) -> int:
        totals = self.after.totals
        return totals.kept if self.direct else totals.active


@escaping(plain)
def render_table(change: Change) -> str:
    titles = ["layer", "weights", f"{change.column} before", "kept", "active", "direct", "effective"]
    before = {layer.name: layer.counts for layer in change.before.layers}
    rows = [[x.name, *_cells(change, before[x.name], x.counts)] for x in change.after.layers]
    total = ["total", *_cells(change, change.before.totals, change.after.totals)]
    wrapped = [line for note in _notes(change) for line in _wrap(f"- {note}", change.look, "  ")]
    lines = grid(titles, rows, total, change.look, NARROW)
    return "\n".join([*lines, "", *_wrap(summary(change), change.look), *wrapped, ""])


def _cells(change: Change, before: Counts, after: Counts) -> list[str]:
    gone = [after.connections - after.kept, after.connections - after.active]
    numbers = (after.connections, getattr(before, change.column), after.kept, after.active)
    return [*map(thousands, numbers), *percents(gone, after.connections)]


def summary(change: Change) -> str:
    """One line: from what to what, how, and whether that is what was asked for."""
    old, new = change.before.totals, change.after.totals
    infinite = "∞" if change.look.unicode else "inf"
    was, now = compressions([old.active, new.active], new.connections, infinite)
    (sparsity,) = percents([new.connections - new.active], new.connections)
    how = ", ".join(f"{value}" for value in change.asked.values())
    text = (
        f"{change.model}: {thousands(new.active)} of {thousands(new.connections)} connections active, effective "
        f"sparsity {sparsity}, compressed {now} (before {was}); {how}"
    )
    return f"{text}. {'Written to ' + change.written if change.written else 'Nothing written: -o FILE writes it'}."


def _notes(change: Change) -> list[str]:
    notes = []
    if change.wanted is not None and change.out_of_reach:
        step = f"cut the network at {change.cut}" if change.cut else "leave nothing active"
        notes.append(
            f"the target, {thousands(change.wanted)} connections, is out of reach: the next step would {step}, so "
            f"it stops at {thousands(change.got)}{'. ' if change.way_on else ''}{change.way_on}"
        )
    elif change.wanted is not None and change.got > change.wanted:
        more = change.got - change.wanted
        notes.append(f"{thousands(more)} more than the target leaves: the next connections fall together")
    if change.removed:
        notes.append(f"{thousands(change.removed)} inactive connections removed; --keep-inactive keeps them")
    return [*notes, *change.notes, *change.after.notes]


def render_json(change: Change) -> str:
    old, new = change.before, change.after
    before = {layer.name: layer.counts for layer in old.layers}
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": change.model,
        "written": change.written,
        "asked": dict(change.asked),
        "wanted": {"kept" if change.direct else "active": change.wanted},
        "reached": not change.out_of_reach and change.got >= (change.wanted or 0),
        "cut": change.cut,
        "removed": change.removed,
        "before": _totals(old),
        "after": _totals(new),
        "layers": [
            {"name": x.name, "shape": list(x.shape), "before": _counts(before[x.name]), "after": _counts(x.counts)}
            for x in new.layers
        ],
        "notes": [*change.notes, *new.notes],
        **change.details,
    }
    return json_text(document)


def _totals(analysis: Analysis) -> dict[str, Any]:
    compression = analysis.totals.effective_compression
    return {
        **_counts(analysis.totals),
        "effective_compression": compression if math.isfinite(compression) else None,
        "disconnected": analysis.disconnected,
    }


def _counts(counts: Counts) -> dict[str, Any]:
    names = ("connections", "kept", "active", "direct_sparsity", "effective_sparsity")
    return {name: getattr(counts, name) for name in names}


def _wrap(text: str, look: Look, indent: str = "") -> list[str]:
    return textwrap.wrap(text, look.width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


FORMATS: dict[str, Callable[[Change], str]] = {"table": render_table, "json": render_json}
