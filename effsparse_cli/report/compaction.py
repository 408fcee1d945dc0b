"""What compacting did: shapes before and after enter, a table with one line that sums it up or JSON leaves."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from effsparse_cli.formatting import dims, thousands
from effsparse_cli.report.escape import escaping, json_text, plain
from effsparse_cli.report.grid import grid
from effsparse_cli.report.page import Look

if TYPE_CHECKING:
    from effsparse_cli.compaction.results import Compaction, Sums

SCHEMA_VERSION = 1
NARROW = ((3, 4), (5, 6))
"""Columns that a narrow terminal goes without: numbers of weights, then multiply-adds."""
BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@dataclass(frozen=True)
class Shrinkage:
    model: str
    written: str | None
    done: Compaction
    look: Look = field(default_factory=Look)


@escaping(plain)
def render_table(shrinkage: Shrinkage) -> str:
    done = shrinkage.done
    titles = ["layer", "before", "after", "weights before", "after", "multiply-adds before", "after"]
    rows = [
        [x.name, dims(x.before), dims(x.after), *map(thousands, (math.prod(x.before), math.prod(x.after))),
         *map(thousands, (x.flops_before, x.flops_after))]
        for x in done.layers
    ]  # fmt: skip
    weights = (sum(math.prod(x.before) for x in done.layers), sum(math.prod(x.after) for x in done.layers))
    total = ["total", "", "", *map(thousands, (*weights, done.before.flops, done.after.flops))]
    lines = grid(titles, rows, total, shrinkage.look, NARROW)
    notes = [line for note in _notes(done) for line in _wrap(f"- {note}", shrinkage.look, "  ")]
    return "\n".join([*lines, "", *_wrap(summary(shrinkage), shrinkage.look), *notes, ""])


def summary(shrinkage: Shrinkage) -> str:
    """One line: what it cost and what it costs now, and that it computes the same."""
    done = shrinkage.done
    same = f"outputs up to {done.scale:.3g} differ by {done.difference:.3g} at most"
    written = f"Written to {shrinkage.written}." if shrinkage.written else "Nothing written: -o FILE writes it."
    if not done.shrunk:
        why = "" if done.unknown else ", every channel and neuron is used"
        return f"{shrinkage.model}: nothing could be cut{why}; {same}. {written}"
    old, new = done.before, done.after
    return (
        f"{shrinkage.model}: {_bytes(old.bytes)} -> {_bytes(new.bytes)} ({_times(old.bytes, new.bytes)} smaller), "
        f"{thousands(old.flops)} -> {thousands(new.flops)} multiply-adds ({_times(old.flops, new.flops)} fewer), "
        f"{_milliseconds(old.latency)} -> {_milliseconds(new.latency)} ms in onnxruntime; {same}. {written}"
    )


def _notes(done: Compaction) -> list[str]:
    shapes = ", ".join(f"{name} {dims(shape)}" for name, shape in done.input_shapes.items())
    notes = [f"sizes and times are those for one input: {shapes}"]
    if done.unknown:
        notes.append(f"operators without a rule, from which nothing was cut: {', '.join(done.unknown)}")
    return [*notes, *done.notes]


def _times(old: float, new: float) -> str:
    return f"{old / new:.3g}x" if new else "-"


def _bytes(number: int) -> str:
    for size, unit in BYTES:
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} bytes"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def render_json(shrinkage: Shrinkage) -> str:
    done = shrinkage.done
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": shrinkage.model,
        "written": shrinkage.written,
        "shrunk": done.shrunk,
        "input_shapes": {name: list(shape) for name, shape in done.input_shapes.items()},
        "before": _sums(done.before),
        "after": _sums(done.after),
        "difference": done.difference,
        "largest_output": done.scale,
        "layers": [
            {
                "name": x.name,
                "before": {"shape": list(x.before), "multiply_adds": x.flops_before},
                "after": {"shape": list(x.after), "multiply_adds": x.flops_after},
            }
            for x in done.layers
        ],
        "unknown_operators": list(done.unknown),
        "notes": list(done.notes),
    }
    return json_text(document)


def _sums(sums: Sums) -> dict[str, Any]:
    return {"bytes": sums.bytes, "multiply_adds": sums.flops, "latency_seconds": sums.latency}


def _wrap(text: str, look: Look, indent: str = "") -> list[str]:
    return textwrap.wrap(text, look.width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


FORMATS: dict[str, Callable[[Shrinkage], str]] = {"table": render_table, "json": render_json}
