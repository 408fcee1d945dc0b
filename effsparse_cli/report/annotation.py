"""The result of `effsparse annotate`: what was written into the metadata of a model and its operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from effsparse_cli.analysis.results import Counts
from effsparse_cli.formatting import percents, plural, thousands
from effsparse_cli.report.analysis.meaning import assumptions
from effsparse_cli.report.document import json_text
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result
from effsparse_cli.report.tables import Table, to_text

if TYPE_CHECKING:
    from effsparse_cli.analysis.results import Analysis

SCHEMA_VERSION = 1
ALWAYS = ("connections", "kept", "active", "inactive", "direct_sparsity", "effective_sparsity")
REASONS = ("no_input", "no_output", "both", "padding", "bias_carriers")


def render_table(annotation: Annotation) -> str:
    return to_text(annotation.table(), annotation.look)


def render_json(annotation: Annotation) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": annotation.model,
        "written": annotation.written,
        "metadata": describe_model(annotation.analysis),
        "operators": [
            {"operator": name, "layers": list(layers), "metadata": describe_call(annotation.analysis, layers)}
            for name, layers in annotation.operators
        ],
    }
    return json_text(document)


@dataclass(frozen=True, kw_only=True, repr=False)
class Annotation(Result):
    """The annotated operators by name, with the layers that each uses, and the analysis."""

    model: str
    written: str
    operators: tuple[tuple[str, tuple[str, ...]], ...]
    analysis: Analysis = field(repr=False)
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = {"table": render_table, "json": render_json}
    RECORDS: ClassVar[str] = "operators"

    @property
    def totals(self) -> Counts:
        return self.analysis.totals

    def table(self) -> Table:
        rows = [
            [name, ", ".join(layers), *_cells(sum_layers(self.analysis, layers))] for name, layers in self.operators
        ]
        count = plural(len(self.operators), "operator")
        return Table(
            titles=["operator", "layer", "weights", "kept", "active", "direct", "effective"],
            rows=rows,
            total=["whole model", "", *_cells(self.totals)],
            sentences=[f"{self.model}: annotated {count} and the model. Written to {self.written}."],
            notes=assumptions(self.analysis),
        )


def describe_model(analysis: Analysis) -> dict[str, str]:
    """Return what is written into the metadata of the model."""
    entries = describe_counts(analysis.totals) | {"disconnected": str(analysis.disconnected).lower()}
    places = {"cut": analysis.cut, "narrowest": analysis.narrowest, "notes": "\n".join(assumptions(analysis))}
    return entries | {key: text for key, text in places.items() if text}


def describe_call(analysis: Analysis, layers: tuple[str, ...]) -> dict[str, str]:
    """Return what is written into the metadata of an operator: of several layers first the sum, then each by name."""
    entries = {"layer": ", ".join(layers), **describe_counts(sum_layers(analysis, layers))}
    for name in layers if len(layers) > 1 else ():
        each = describe_counts(sum_layers(analysis, (name,)))
        entries |= {f"{key}.{name}": text for key, text in each.items()}
    return entries


def describe_counts(counts: Counts) -> dict[str, str]:
    numbers = {name: getattr(counts, name) for name in (*ALWAYS, *REASONS)}
    return {name: str(number) for name, number in numbers.items() if name in ALWAYS or number}


def sum_layers(analysis: Analysis, layers: tuple[str, ...]) -> Counts:
    return sum((layer.counts for layer in (*analysis.layers, *analysis.apart) if layer.name in layers), Counts())


def _cells(counts: Counts) -> list[str]:
    zeros = [counts.connections - counts.kept, counts.connections - counts.active]
    return [*map(thousands, (counts.connections, counts.kept, counts.active)), *percents(zeros, counts.connections)]
