"""The page that `effsparse prune` and `effsparse repair` render: analyses before and after, and the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from effsparse_cli.report.look import Look

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis


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
