"""Formats of `effsparse prune` and `effsparse repair`: the request, and counts before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from effsparse_cli.formatting import compressions, percents, thousands
from effsparse_cli.report.document import counts_to_json, finite_or_none, json_text, totals_to_json
from effsparse_cli.report.escape import escaping, printable
from effsparse_cli.report.look import Look, bullets, wrap
from effsparse_cli.report.tables import align_table

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts


@dataclass(frozen=True, kw_only=True)
class Change:
    """The request, what came of it, and how to show it.

    `request` describes the request, by option. `wanted` is the target as a number of connections (kept if
    `direct`, else active), None without a target. If it is `out_of_reach`, `cut` is the layer that the next step would
    cut and `hint` says how to go on. `column` is the count shown as it was before; `details` appear in JSON only.
    """

    model: str
    written: str | None
    request: Mapping[str, str]
    before: Analysis
    after: Analysis
    wanted: int | None = None
    direct: bool = False
    removed: int = 0
    out_of_reach: bool = False
    cut: str | None = None
    hint: str = ""
    notes: tuple[str, ...] = ()
    column: str = "active"
    details: Mapping[str, Any] = field(default_factory=dict)
    look: Look = field(default_factory=Look)

    @property
    def reached(self) -> int:
        totals = self.after.totals
        return totals.kept if self.direct else totals.active


OPTIONAL = ((5,), (1,), (2,), (4,))
"""Columns left out in a narrow terminal, in this order: direct, weights, the count before, active."""


@escaping(printable)
def render_table(change: Change) -> str:
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


SCHEMA_VERSION = 1


def render_json(change: Change) -> str:
    before = {layer.name: layer.counts for layer in change.before.layers}
    layers = [
        {
            "name": layer.name,
            "shape": list(layer.shape),
            "before": counts_to_json(before[layer.name]),
            "after": counts_to_json(layer.counts),
        }
        for layer in change.after.layers
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": change.model,
        "written": change.written,
        "asked": dict(change.request),
        "wanted": {"kept" if change.direct else "active": change.wanted},
        "reached": not change.out_of_reach and change.reached >= (change.wanted or 0),
        "cut": change.cut,
        "removed": change.removed,
        "before": _totals(change.before),
        "after": _totals(change.after),
        "layers": layers,
        "notes": [*change.notes, *change.after.notes],
        **change.details,
    }
    return json_text(document)


def _totals(analysis: Analysis) -> dict[str, Any]:
    return totals_to_json(analysis, effective_compression=finite_or_none(analysis.totals.effective_compression))


FORMATS: dict[str, Callable[[Change], str]] = {"table": render_table, "json": render_json}
