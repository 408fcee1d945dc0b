"""Columns shared by the table and Markdown formats: undecorated cells with a total.

Columns that would be empty for every layer are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from effsparse_cli.formatting import dims, percents, thousands

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
    """Return the columns by name, in display order."""
    layers, totals = page.layers, page.analysis.totals
    counted = {
        title: _counted(title, field, layers, totals)
        for title, field in COUNTED.items()
        if title in ALWAYS or getattr(totals, field)
    }
    sparsities = [_sparsities(layer.counts) for layer in layers]
    direct, effective = _sparsities(totals)
    columns = {
        "layer": Column("layer", tuple(layer.name for layer in layers), _total_name(page), right=False),
        "op": Column("op", tuple(layer.op for layer in layers), "", right=False),
        "shape": Column("shape", tuple(dims(layer.shape) for layer in layers), "", right=False),
        "direct": Column("direct", tuple(row[0] for row in sparsities), direct),
        "effective": Column("effective", tuple(row[1] for row in sparsities), effective),
        **counted,
        "dead neurons": _dead_neurons(layers, page.analysis),
        "pattern": Column("pattern", tuple(layer.pattern for layer in layers), "", right=False),
    }
    order = ("layer", "op", "shape", "weights", "kept", "direct", "active", "effective", *columns)
    return {name: column for name in order if (column := columns[name]).total or any(column.cells)}


def _total_name(page: AnalysisPage) -> str:
    return "total" if len(page.layers) == len(page.analysis.layers) else "whole model"


def _counted(title: str, field: str, layers: tuple[LayerResult, ...], totals: Counts) -> Column:
    text: Callable[[int], str] = thousands if title in ALWAYS else _thousands_or_blank
    cells = tuple(text(getattr(layer.counts, field)) for layer in layers)
    return Column(title, cells, thousands(getattr(totals, field)))


def _sparsities(counts: Counts) -> list[str]:
    return percents([counts.connections - counts.kept, counts.connections - counts.active], counts.connections)


def _dead_neurons(layers: tuple[LayerResult, ...], analysis: Analysis) -> Column:
    cells = tuple(f"{thousands(x.dead_neurons)} of {thousands(x.neurons)}" if x.dead_neurons else "" for x in layers)
    dead, neurons = sum(x.dead_neurons for x in analysis.layers), sum(x.neurons for x in analysis.layers)
    return Column("dead neurons", cells, f"{thousands(dead)} of {thousands(neurons)}" if dead else "")


def _thousands_or_blank(number: int) -> str:
    return thousands(number) if number else ""
