"""The table for terminals: shapes and costs per layer, a summary in one sentence, and notes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from effsparse_cli.formatting import dims, thousands
from effsparse_cli.report.escape import escaping, printable
from effsparse_cli.report.look import bullets, wrap
from effsparse_cli.report.tables import align_table

if TYPE_CHECKING:
    from effsparse_cli.compaction.results import CompactResult
    from effsparse_cli.report.compaction.page import CompactionPage

OPTIONAL = ((3, 4), (5, 6))
"""Columns left out in a narrow terminal: numbers of weights, then multiply-adds."""
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@escaping(printable)
def render(page: CompactionPage) -> str:
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
