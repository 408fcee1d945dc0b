"""The names of lines in figures and of rows in tables: a method, its quota, and what else tells experiments apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from effsparse_cli.report.studies.record import TaskRecord


def group_records(records: Sequence[TaskRecord], *, by_target: bool = True) -> dict[str, list[TaskRecord]]:
    """Return the tasks by label. Those of one label differ in compression and seed alone; if not `by_target`, also in
    whether the compression is direct or effective. A method with several moments, options or targets names them."""
    methods: dict[str, list[TaskRecord]] = {}
    for record in records:
        methods.setdefault(f"{record.method} {record.lsq}".strip(), []).append(record)
    groups: dict[str, list[TaskRecord]] = {}
    for method, found in methods.items():
        settings = [_settings(record, by_target) for record in found]
        names = dict.fromkeys(name for each in settings for name in each)
        differing = [name for name in names if len({each.get(name) for each in settings}) > 1]
        for record, each in zip(found, settings, strict=True):
            label = " ".join([method, *(each[name] for name in differing if name in each)])
            groups.setdefault(label, []).append(record)
    return groups


def _settings(record: TaskRecord, by_target: bool) -> dict[str, str]:
    target = {"target": f"{'effective' if record.effective else 'direct'} target"} if by_target else {}
    options: dict[str, Any] = {f"option {name}": f"{name}={value}" for name, value in record.options.items()}
    return {"when": record.when, **target, **options}
