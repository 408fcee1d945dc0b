"""The result of `effsparse compact`: shapes and costs before and after, as a table and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from effsparse_cli.compaction.results import CompactResult, Sums
from effsparse_cli.formatting import dims, thousands
from effsparse_cli.report.document import json_text
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result, render_table
from effsparse_cli.report.tables import Table

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn

SCHEMA_VERSION = 1
TITLES = ("layer", "before", "after", "weights before", "after", "multiply-adds before", "after")
OPTIONAL = ((3, 4), (5, 6))
"""Columns left out in a narrow terminal: numbers of weights, then multiply-adds."""
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def _summary(result: Compaction) -> str:
    same = f"max output difference {result.difference:.3g} (largest output {result.scale:.3g})"
    if result.written:
        end = f" Written to {result.written}."
    else:
        end = "" if result.module is not None else " Nothing written; use -o FILE to save the result."
    if not result.shrunk:
        reason = "" if result.unknown else ", every channel and neuron is used"
        return f"{result.model}: nothing could be removed{reason}; {same}.{end}"
    old, new = result.before, result.after
    return (
        f"{result.model}: {_bytes(old.bytes)} -> {_bytes(new.bytes)}{_ratio(old.bytes, new.bytes, 'smaller')}, "
        f"{thousands(old.flops)} -> {thousands(new.flops)} multiply-adds{_ratio(old.flops, new.flops, 'fewer')}, "
        f"{_milliseconds(old.latency)} -> {_milliseconds(new.latency)} ms in onnxruntime; {same}.{end}"
    )


def _notes(result: CompactResult) -> list[str]:
    shapes = ", ".join(f"{name} {dims(shape)}" for name, shape in result.input_shapes.items())
    notes = [f"sizes and times are for one input: {shapes}"]
    if result.unknown:
        notes.append(f"operators without a compaction rule, left unchanged: {', '.join(result.unknown)}")
    return [*notes, *result.notes]


def _ratio(old: float, new: float, comparative: str) -> str:
    if old == new or not new:
        return "" if old == new else f" (all {comparative})"
    ratio = f"{old / new:.3g}"
    return f" ({ratio}x {comparative})" if ratio != "1" else ""


def _bytes(number: int) -> str:
    for size, unit in UNITS:
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} bytes"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def render_json(result: Compaction) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": result.model,
        "written": result.written,
        "shrunk": result.shrunk,
        "input_shapes": {name: list(shape) for name, shape in result.input_shapes.items()},
        "before": _sums(result.before),
        "after": _sums(result.after),
        "difference": result.difference,
        "largest_output": result.scale,
        "layers": [
            {
                "name": x.name,
                "before": {"shape": list(x.before), "multiply_adds": x.flops_before},
                "after": {"shape": list(x.after), "multiply_adds": x.flops_after},
            }
            for x in result.layers
        ],
        "unknown_operators": list(result.unknown),
        "notes": list(result.notes),
    }
    return json_text(document)


def _sums(sums: Sums) -> dict[str, Any]:
    return {"bytes": sums.bytes, "multiply_adds": sums.flops, "latency_seconds": sums.latency}


@dataclass(frozen=True, kw_only=True, repr=False)
class Compaction(Result, CompactResult):
    """`module` or `onnx_model` is the smaller model, `written` the file that it was written to, if any."""

    model: str = "model"
    written: str | None = None
    module: nn.Module | None = field(default=None, repr=False)
    onnx_model: ModelProto | None = field(default=None, repr=False)
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = {"table": render_table, "json": render_json}

    def table(self) -> Table:
        rows = []
        for x in self.layers:
            numbers = (math.prod(x.before), math.prod(x.after), x.flops_before, x.flops_after)
            rows.append([x.name, dims(x.before), dims(x.after), *map(thousands, numbers)])
        weights = (sum(math.prod(x.before) for x in self.layers), sum(math.prod(x.after) for x in self.layers))
        total = ["total", "", "", *map(thousands, (*weights, self.before.flops, self.after.flops))]
        return Table(
            titles=TITLES, rows=rows, total=total, optional=OPTIONAL, sentences=[_summary(self)], notes=_notes(self)
        )
