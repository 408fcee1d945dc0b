"""Columns shared by the table and Markdown formats: undecorated cells with a total.

Columns that would be empty for every layer are left out, unless they were chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from effsparse_cli.analysis.groups import sum_known
from effsparse_cli.formatting import dims, percents, thousands
from effsparse_cli.report.analysis.page import COSTS

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis, Counts, LayerResult
    from effsparse_cli.report.analysis.page import AnalysisPage


@dataclass(frozen=True)
class Column:
    title: str
    cells: tuple[str, ...]
    total: str
    right: bool = True


ALWAYS = {"weights": "connections", "kept": "kept", "active": "active"}
REASONS = {"no-input": "no_input", "no-output": "no_output", "both": "both", "padding": "padding"}
COUNTED = ALWAYS | {"inactive": "inactive"} | REASONS | {"bias carriers": "bias_carriers"}


def build_columns(page: AnalysisPage) -> dict[str, Column]:
    """Return the columns by name, in display order: the chosen ones, or all that are not empty."""
    layers, totals = page.layers, page.analysis.totals
    counted = {title: _counted(title, field, layers, totals) for title, field in COUNTED.items()}
    sparsities = [_sparsities(layer.counts) for layer in layers]
    direct, effective = _sparsities(totals)
    columns = {
        "layer": Column("layer", tuple(layer.name for layer in layers), _total_name(page), right=False),
        "op": Column("op", tuple(layer.op for layer in layers), "", right=False),
        "shape": Column("shape", tuple(dims(x.shape) if x.shape else "" for x in layers), "", right=False),
        "direct": Column("direct", tuple(row[0] for row in sparsities), direct),
        "effective": Column("effective", tuple(row[1] for row in sparsities), effective),
        **counted,
        "dead neurons": _dead_neurons(layers, page.analysis),
        "pattern": Column("pattern", tuple(layer.pattern for layer in layers), "", right=False),
        **{name: _costs(name, layers, page.analysis) for name in COSTS},
    }
    if page.columns:
        return {"layer": columns["layer"]} | {name: columns[name] for name in map(title_of, page.columns)}
    order = ("layer", "op", "shape", "weights", "kept", "direct", "active", "effective", *columns)
    return {name: column for name in order if (column := columns[name]).total or any(column.cells)}


def _total_name(page: AnalysisPage) -> str:
    return "total" if page.whole else "whole model"


def title_of(column: str) -> str:
    """Return the title of a column by its name in COLUMNS."""
    return {"bias-carriers": "bias carriers", "dead-neurons": "dead neurons"}.get(column, column)


def cost_of(column: str, layer: LayerResult) -> int | None:
    return getattr(layer, column.replace("-", "_"))  # type: ignore[no-any-return]


def total_cost(column: str, analysis: Analysis) -> int | None:
    return sum_known([cost_of(column, layer) for layer in analysis.layers])


def _costs(name: str, layers: tuple[LayerResult, ...], analysis: Analysis) -> Column:
    *cells, total = [
        "" if cost is None else thousands(cost)
        for cost in (*(cost_of(name, layer) for layer in layers), total_cost(name, analysis))
    ]
    return Column(name.replace("active-bytes", "active bytes"), tuple(cells), total)


def _counted(title: str, field: str, layers: tuple[LayerResult, ...], totals: Counts) -> Column:
    text: Callable[[int], str] = thousands if title in ALWAYS else _thousands_or_blank
    cells = tuple(text(getattr(layer.counts, field)) for layer in layers)
    return Column(title, cells, text(getattr(totals, field)))


def _sparsities(counts: Counts) -> list[str]:
    return percents([counts.connections - counts.kept, counts.connections - counts.active], counts.connections)


def _dead_neurons(layers: tuple[LayerResult, ...], analysis: Analysis) -> Column:
    cells = tuple(f"{thousands(x.dead_neurons)} of {thousands(x.neurons)}" if x.dead_neurons else "" for x in layers)
    dead, neurons = sum(x.dead_neurons for x in analysis.layers), sum(x.neurons for x in analysis.layers)
    return Column("dead neurons", cells, f"{thousands(dead)} of {thousands(neurons)}" if dead else "")


def _thousands_or_blank(number: int) -> str:
    return thousands(number) if number else ""
