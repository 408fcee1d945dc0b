"""The table of layers for HTML: the cells of every other format, bars of kinds, and rows for groups of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from effsparse_cli.analysis.groups import group_layers, group_name, name_depth
from effsparse_cli.report.analysis.columns import REASONS, build_columns

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Counts, LayerResult
    from effsparse_cli.report.analysis.page import AnalysisPage
    from effsparse_cli.report.tables import Table

KINDS = {"active": "active"} | REASONS
"""What becomes of kept connections, and the field of `Counts` that says how many."""

DEEPEST = 16
"""Maximum number of components to group by: names with thousands of them must not make thousands of groups."""


@dataclass(frozen=True)
class Part:
    """A part of a bar of kept connections: its kind, as in class names, and its share in percent."""

    kind: str
    share: float


@dataclass(frozen=True)
class Row:
    """`groups` has, for each depth, the number of the group that the row belongs to, or -1. Rows can be filtered by
    their `state`."""

    cells: Sequence[str]
    bar: Sequence[Part] = ()
    groups: Sequence[int] = ()
    state: str = ""


@dataclass(frozen=True)
class Heading:
    """`name` is that of the column in `build_columns`, for styles."""

    title: str
    right: bool
    name: str = ""


@dataclass(frozen=True)
class HtmlTable:
    """`groups` are the rows that sums of several layers have; `noun` is what a row is about."""

    headings: Sequence[Heading]
    rows: Sequence[Row]
    total: Sequence[str] = ()
    groups: Sequence[Row] = ()
    noun: str = "row"

    @property
    def depths(self) -> int:
        return max((len(row.groups) for row in self.rows), default=0)


def build_table(page: AnalysisPage, *, grouped: bool = True) -> HtmlTable:
    """Return the layers of a page and, if `grouped`, their sums by module at every depth."""
    groups = find_groups(page.layers) if grouped else {}
    layers = (*page.layers, *groups.values())
    columns = build_columns(replace(page, layers=layers))
    bars = [find_parts(layer.counts) if layer.counts.inactive else () for layer in layers]
    cells = zip(*(column.cells for column in columns.values()), strict=True)
    numbers = {name: i for i, name in enumerate(groups)}
    depths = max((name_depth(name) for name in groups), default=0)
    rows = [
        Row(texts, bar, [numbers.get(group_name(layer.name, depth), -1) for depth in range(1, depths + 1)])
        for layer, texts, bar in zip(layers, cells, bars, strict=True)
    ]
    return HtmlTable(
        headings=[Heading(column.title, column.right, name) for name, column in columns.items()],
        rows=rows[: len(page.layers)],
        total=[column.total for column in columns.values()],
        groups=rows[len(page.layers) :],
        noun="layer",
    )


def convert_table(table: Table) -> HtmlTable:
    """Return the table of any other result."""
    headings = [Heading(title, right=i > 0) for i, title in enumerate(table.titles)]
    return HtmlTable(headings, [Row(cells) for cells in table.rows], table.total or ())


def find_groups(layers: Sequence[LayerResult]) -> dict[str, LayerResult]:
    """Return the sums of layers by module, at every depth, for modules with several layers."""
    groups: dict[str, LayerResult] = {}
    for depth in range(1, min(DEEPEST + 1, max((name_depth(layer.name) for layer in layers), default=0))):
        sizes = Counter(group_name(layer.name, depth) for layer in layers)
        found = {layer.name: layer for layer in group_layers(layers, depth)}
        groups |= {name: found[name] for name, size in sizes.items() if size > 1}
    return groups


def find_parts(counts: Counts) -> list[Part]:
    """Return the parts of a bar: kept connections by kind."""
    numbers = {kind: getattr(counts, field) for kind, field in KINDS.items()}
    return [Part(kind, round(100 * number / counts.kept, 3)) for kind, number in numbers.items() if number]
