"""JSON for scripts: shapes and costs before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effsparse_cli.report.document import json_text

if TYPE_CHECKING:
    from effsparse_cli.compaction.results import Sums
    from effsparse_cli.report.compaction.page import CompactionPage

SCHEMA_VERSION = 1


def render(page: CompactionPage) -> str:
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
