"""What every format renders: an analysis, the model's name, and the layers to show in their order."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from effsparse_cli.errors import UsageError

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, LayerResult


@dataclass(frozen=True)
class Look:
    """What the place that shows the text can do."""

    width: int = 100
    colour: bool = False
    unicode: bool = True


@dataclass(frozen=True)
class Page:
    """`layers` may be fewer than the analysis has; totals are always the whole model's."""

    model: str
    analysis: Analysis
    layers: tuple[LayerResult, ...]
    look: Look = Look()


ORDERS: dict[str, Callable[[LayerResult], float | str] | None] = {
    "order": None,
    "direct": lambda layer: -layer.counts.direct_sparsity,
    "effective": lambda layer: -layer.counts.effective_sparsity,
    "gap": lambda layer: -layer.counts.inactive / max(layer.counts.connections, 1),
    "inactive": lambda layer: -layer.counts.inactive,
    "weights": lambda layer: -layer.counts.connections,
    "name": lambda layer: layer.name,
}


def compose(
    model: str, analysis: Analysis, patterns: Sequence[str] = (), order: str = "order", look: Look | None = None
) -> Page:
    """Equal layers keep the model's order; the largest number comes first."""
    shown = matching([layer.name for layer in analysis.layers], patterns)
    layers = [layer for layer in analysis.layers if layer.name in shown]
    key = ORDERS[order]
    return Page(model, analysis, tuple(sorted(layers, key=key) if key else layers), look or Look())


def matching(names: Sequence[str], patterns: Sequence[str]) -> set[str]:
    """The names that a pattern fits; all, where there is none."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = difflib.get_close_matches(pattern.strip("*"), names, n=3, cutoff=0.3) or names[:3]
            raise UsageError(
                f"no layer's name matches {pattern!r}. The closest names are {', '.join(close)}. A pattern matches "
                "the whole name: * stands for anything, ? for one character."
            )
    return {name for name in names if not patterns or any(fnmatchcase(name, p) for p in patterns)}
