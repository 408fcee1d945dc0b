"""Formats of `effsparse compact`: shapes and costs before and after, as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from effsparse_cli.formatting import dims, thousands
from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import escaping, printable
from effsparse_cli.report.look import Look, bullets, wrap
from effsparse_cli.report.tables import align_table

if TYPE_CHECKING:
    from effsparse_cli.compaction.results import CompactResult, Sums


@dataclass(frozen=True)
class CompactionPage:
    model: str
    written: str | None
    result: CompactResult
    look: Look = field(default_factory=Look)


OPTIONAL = ((3, 4), (5, 6))
"""Columns left out in a narrow terminal: numbers of weights, then multiply-adds."""
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@escaping(printable)
def render_table(page: CompactionPage) -> str:
    result, look = page.result, page.look
    titles = ["layer", "before", "after", "weights before", "after", "multiply-adds before", "after"]
    rows = []
    for x in result.layers:
        numbers = (math.prod(x.before), math.prod(x.after), x.flops_before, x.flops_after)
        rows.append([x.name, dims(x.before), dims(x.after), *map(thousands, numbers)])
    weights = (sum(math.prod(x.before) for x in result.layers), sum(math.prod(x.after) for x in result.layers))
    total = ["total", "", "", *map(thousands, (*weights, result.before.flops, result.after.flops))]
    lines = align_table(titles, rows, total, look, OPTIONAL)
    return "\n".join([*lines, "", *wrap(_summary(page), look.width), *bullets(_notes(result), look.width), ""])


def _summary(page: CompactionPage) -> str:
    result = page.result
    same = f"max output difference {result.difference:.3g} (largest output {result.scale:.3g})"
    written = f"Written to {page.written}." if page.written else "Nothing written; use -o FILE to save the result."
    if not result.shrunk:
        reason = "" if result.unknown else ", every channel and neuron is used"
        return f"{page.model}: nothing could be removed{reason}; {same}. {written}"
    old, new = result.before, result.after
    return (
        f"{page.model}: {_bytes(old.bytes)} -> {_bytes(new.bytes)} ({_ratio(old.bytes, new.bytes)} smaller), "
        f"{thousands(old.flops)} -> {thousands(new.flops)} multiply-adds ({_ratio(old.flops, new.flops)} fewer), "
        f"{_milliseconds(old.latency)} -> {_milliseconds(new.latency)} ms in onnxruntime; {same}. {written}"
    )


def _notes(result: CompactResult) -> list[str]:
    shapes = ", ".join(f"{name} {dims(shape)}" for name, shape in result.input_shapes.items())
    notes = [f"sizes and times are for one input: {shapes}"]
    if result.unknown:
        notes.append(f"operators without a compaction rule, left unchanged: {', '.join(result.unknown)}")
    return [*notes, *result.notes]


def _ratio(old: float, new: float) -> str:
    return f"{old / new:.3g}x" if new else "-"


def _bytes(number: int) -> str:
    for size, unit in UNITS:
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} bytes"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


SCHEMA_VERSION = 1


def render_json(page: CompactionPage) -> str:
    result = page.result
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": page.model,
        "written": page.written,
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


FORMATS: dict[str, Callable[[CompactionPage], str]] = {"table": render_table, "json": render_json}
