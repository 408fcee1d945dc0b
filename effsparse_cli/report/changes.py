"""The result of `effsparse prune` and `effsparse repair`: the request, and counts before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from effsparse_cli.formatting import compressions, is_compressed, percents, plural, thousands
from effsparse_cli.report.document import counts_to_json, finite_or_none, json_text, totals_to_json
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result, render_table
from effsparse_cli.report.tables import Table

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts, Layers
    from effsparse_cli.graph.primitives import Bools

SCHEMA_VERSION = 1
OPTIONAL = ((5,), (1,), (2,), (4,))
"""Columns left out in a narrow terminal, in this order: direct, weights, the count before, active."""


def _cells(change: Change, before: Counts, after: Counts) -> list[str]:
    zeros = [after.connections - after.kept, after.connections - after.active]
    numbers = (after.connections, getattr(before, change.column), after.kept, after.active)
    return [*map(thousands, numbers), *percents(zeros, after.connections)]


def _summary(change: Change) -> str:
    old, new = change.before.totals, change.totals
    worth_saying = old.active == old.connections or is_compressed(old.active, old.connections)
    *was, now = compressions(
        [*([old.active] if worth_saying else []), new.active], new.connections, change.look.infinite
    )
    before = f" (before {was[0]})" if was else ""
    compressed = f", compressed {now}{before}" if is_compressed(new.active, new.connections) else ""
    (sparsity,) = percents([new.connections - new.active], new.connections)
    text = (
        f"{change.model}: {thousands(new.active)} of {plural(new.connections, 'connection')} active, effective "
        f"sparsity {sparsity}{compressed}; {', '.join(change.request.values())}."
    )
    if change.in_module:
        return text
    written = f"Written to {change.written}" if change.written else "Nothing written; use -o FILE to save the result"
    return f"{text} {written}."


def _notes(change: Change) -> list[str]:
    notes = []
    if change.wanted is not None and change.out_of_reach:
        step = f"cut the network at {change.cut}" if change.cut else "leave nothing active"
        notes.append(
            f"the target of {plural(change.wanted, 'connection')} is out of reach: the next step would {step}; "
            f"stopped at {thousands(change.reached)}{'. ' if change.hint else ''}{change.hint}"
        )
    elif change.wanted is not None and change.reached > change.wanted:
        more = change.reached - change.wanted
        notes.append(f"{plural(more, 'connection')} above the target: the next ones can only be removed together")
    if change.removed and "removed" not in change.details:
        notes.append(f"{plural(change.removed, 'inactive connection')} removed; --keep-inactive keeps them")
    return [*notes, *change.notes, *change.after.notes]


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


@dataclass(frozen=True, kw_only=True, repr=False)
class Change(Result):
    """The request, what came of it, and how to show it.

    `masks` are the new masks by layer, in the stored shape. `request` describes the request, by option. `wanted` is the
    target as a number of connections (kept if `direct`, else active), None without a target. If it is `out_of_reach`,
    `cut` is the layer that the next step would cut and `hint` says how to go on. `written` is the file that was
    written, if any; `in_module` says that a live module was changed. `column` is the count shown as it was before;
    `details` appear in JSON only. `result` has the details of the work for Python programs: a `PruneResult`,
    `RepairResult` or `MendResult`.
    """

    model: str
    written: str | None = None
    in_module: bool = False
    masks: Mapping[str, Bools] = field(default_factory=dict, repr=False)
    request: Mapping[str, str]
    before: Analysis = field(repr=False)
    after: Analysis = field(repr=False)
    wanted: int | None = None
    direct: bool = False
    removed: int = 0
    out_of_reach: bool = False
    cut: str | None = None
    hint: str = ""
    notes: tuple[str, ...] = ()
    column: str = "active"
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)
    result: Any = field(default=None, repr=False)
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = {"table": render_table, "json": render_json}

    @property
    def layers(self) -> Layers:
        """The layers after the change."""
        return self.after.layers

    @property
    def totals(self) -> Counts:
        """The counts after the change."""
        return self.after.totals

    @property
    def reached(self) -> int:
        return self.totals.kept if self.direct else self.totals.active

    def table(self) -> Table:
        before = {layer.name: layer.counts for layer in self.before.layers}
        return Table(
            titles=["layer", "weights", f"{self.column} before", "kept", "active", "direct", "effective"],
            rows=[[x.name, *_cells(self, before[x.name], x.counts)] for x in self.layers],
            total=["total", *_cells(self, self.before.totals, self.totals)],
            optional=OPTIONAL,
            sentences=[_summary(self)],
            notes=_notes(self),
        )
