"""All results of one run, as written to JSON and read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.clock import Spread
from benchmarks.growth import Growth
from benchmarks.machine import Machine
from benchmarks.ratios import Row
from benchmarks.startup import Startup
from benchmarks.step import Step

SCHEMA = 3


@dataclass
class Results:
    machine: Machine
    rows: list[Row] = field(default_factory=list)
    deeper: list[Growth] = field(default_factory=list)
    wider: list[Growth] = field(default_factory=list)
    startup: list[Startup] = field(default_factory=list)
    step: Step | None = None
    schema_version: int = SCHEMA


def read(data: dict[str, Any]) -> Results:
    """Build results from what `json.load` returns."""
    if data.get("schema_version") != SCHEMA:
        raise SystemExit("these results were written by another version of the benchmarks: measure everything anew")
    step = data["step"]
    return Results(
        machine=Machine(**data["machine"]),
        rows=[Row(**_spreads(row)) for row in data["rows"]],
        deeper=[Growth(**each) for each in data["deeper"]],
        wider=[Growth(**each) for each in data["wider"]],
        startup=[Startup(**_spreads(each)) for each in data["startup"]],
        step=None if step is None else Step(**_spreads(step)),
    )


def _spreads(record: dict[str, Any]) -> dict[str, Any]:
    return {name: Spread(**value) if isinstance(value, dict) else value for name, value in record.items()}
