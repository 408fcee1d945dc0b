"""The page that every format of `effsparse compact` renders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from effsparse_cli.report.look import Look

if TYPE_CHECKING:
    from effsparse_cli.compaction.results import CompactResult


@dataclass(frozen=True)
class CompactionPage:
    model: str
    written: str | None
    result: CompactResult
    look: Look = field(default_factory=Look)
