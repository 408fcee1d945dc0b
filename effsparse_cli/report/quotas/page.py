"""The page that every format of `effsparse quotas` renders: connections kept by each quota in each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from effsparse_cli.report.look import Look


@dataclass(frozen=True, kw_only=True)
class QuotaPage:
    """`layers` are names, shapes and numbers of weights; `kept` has one number per layer for each quota."""

    model: str
    target: str
    layers: Sequence[tuple[str, tuple[int, ...], int]]
    kept: dict[str, tuple[int, ...]]
    notes: tuple[str, ...] = ()
    look: Look = field(default_factory=Look)

    @property
    def connections(self) -> int:
        return sum(weights for *_, weights in self.layers)
