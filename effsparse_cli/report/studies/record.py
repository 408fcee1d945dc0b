"""One task of a study with its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TASK_FIELDS = ("name", "state", "model", "method", "lsq", "compression", "effective", "when", "seed", "reason")


@dataclass(frozen=True, kw_only=True)
class TaskRecord:
    """A task and its result, None if it has none. `options` are those that the study file sets."""

    name: str
    state: str
    model: str
    method: str
    lsq: str
    compression: float
    effective: bool
    when: str
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    result: Mapping[str, Any] | None = None

    def number(self, *path: str) -> float | None:
        """Return a number of the result, None if there is none."""
        value: Any = self.result
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def flatten(record: TaskRecord) -> dict[str, Any]:
    """Return the task and the scalars of its result in one level: `final.kept` becomes `final_kept`."""
    flat = {name: getattr(record, name) for name in TASK_FIELDS}
    flat |= {f"option_{name}": value for name, value in record.options.items() if not isinstance(value, Mapping | list)}
    for name, value in (record.result or {}).items():
        if isinstance(value, Mapping):
            flat |= {f"{name}_{key}": each for key, each in value.items() if not isinstance(each, Mapping | list)}
        elif name == "notes":
            flat[name] = "; ".join(map(str, value))
        elif not isinstance(value, list) and name != "schema_version":
            flat[f"result_{name}" if name in TASK_FIELDS else name] = value
    return flat
