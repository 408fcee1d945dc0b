"""A study and its results so far: a table of what is done, and one record per task as JSON, CSV or Parquet."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import replacing
from effsparse_cli.formatting import plural
from effsparse_cli.report.document import json_text
from effsparse_cli.report.escape import csv_cell, escaping
from effsparse_cli.report.look import Look, find_look
from effsparse_cli.report.result import Formats, Result, build_frame, render_table
from effsparse_cli.report.studies.labels import group_records
from effsparse_cli.report.studies.record import TASK_FIELDS, TaskRecord, flatten
from effsparse_cli.report.tables import Table, csv_text
from effsparse_cli.study.task_folder import FAILED, FINISHED, PENDING, RUNNING

SCHEMA_VERSION = 1
STATES = (FINISHED, FAILED, RUNNING, PENDING)
SHOWN_FAILURES = 10


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys((*TASK_FIELDS, *(name for row in rows for name in row))))


@escaping(csv_cell)
def render_csv(page: StudyReport) -> str:
    rows = [flatten(record) for record in page.tasks]
    columns = _columns(rows)
    cells = [["" if row.get(name) is None else row.get(name) for name in columns] for row in rows]
    return csv_text([columns, *cells])


def render_json(page: StudyReport) -> str:
    tasks = [
        {**{name: getattr(each, name) for name in TASK_FIELDS}, "options": each.options, "result": each.result}
        for each in page.tasks
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "title": page.title,
        "folder": page.folder,
        "tasks": tasks,
        "strays": list(page.strays),
    }
    return json_text(document)


@dataclass(frozen=True, repr=False)
class StudyReport(Result):
    """`strays` are folders of tasks that the study file no longer has. `runs_code` says whether it names code."""

    title: str
    folder: str
    tasks: Sequence[TaskRecord]
    strays: Sequence[str] = ()
    runs_code: bool = False
    look: Look = field(default_factory=find_look, repr=False)

    FORMATS: ClassVar[Formats] = {"table": render_table, "json": render_json, "csv": render_csv}
    RECORDS: ClassVar[str] = "tasks"

    def __repr__(self) -> str:
        return f"<StudyReport of {self.folder}: {self.count(FINISHED)} of {plural(len(self.tasks), 'task')} finished>"

    def count(self, state: str) -> int:
        return sum(record.state == state for record in self.tasks)

    @property
    def failed(self) -> bool:
        """Whether a task has failed."""
        return self.count(FAILED) > 0

    def table(self) -> Table:
        """Return one row per method, with the number of its tasks in each state."""
        groups = {label: Counter(each.state for each in found) for label, found in group_records(self.tasks).items()}
        shown = [state for state in STATES if state == FINISHED or self.count(state)]
        rows = [
            [label, *(str(counts[state]) for state in shown), str(counts.total())] for label, counts in groups.items()
        ]
        failures = [f"{each.name} failed: {each.reason}" for each in self.tasks if each.state == FAILED]
        more = len(failures) - SHOWN_FAILURES
        notes = [*failures[:SHOWN_FAILURES], *([f"{more} more failed"] if more > 0 else [])]
        if failures:
            trust = " --trust" if self.runs_code else ""
            notes.append(f"effsparse study retry {self.folder}{trust} runs failed tasks again")
        if self.strays:
            number, more_of_them = plural(len(self.strays), "folder"), ", ..." * (len(self.strays) > 1)
            notes.append(
                f"{number} of other tasks, from earlier study files, no longer needed: {self.strays[0]}{more_of_them}"
            )
        return Table(
            title=self.title or self.folder,
            titles=["method", *shown, "all"],
            rows=rows,
            total=["total", *(str(self.count(state)) for state in shown), str(len(self.tasks))],
            notes=notes,
        )

    def to_frame(self) -> Any:
        """Return one row per task as a pandas data frame."""
        return build_frame([flatten(record) for record in self.tasks])

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write one row per task. Needs pyarrow."""
        try:
            arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError as error:
            raise UsageError("--format parquet needs pyarrow, which is not installed: pip install pyarrow") from error
        rows = [flatten(record) for record in self.tasks]
        columns = _columns(rows)
        table = arrow.table({name: [row.get(name) for row in rows] for name in columns})
        # Given a path, pyarrow would delete what is there if it cannot write, even a device.
        with replacing(Path(path)) as temporary, open(temporary, "wb") as file:
            parquet.write_table(table, file)

    def plot(self, path: str | os.PathLike[str], kind: str = "", *, seeds: int = 0) -> None:
        """Draw a figure of the paper from the finished tasks. `kind` is compression, accuracy, original, quotas, layers
        or targets; by default accuracy, or compression if nothing was trained. With a number of `seeds`, those of each
        method that stay connected longest."""
        from effsparse_cli.report.studies.figures import draw

        if seeds < 0:
            raise UsageError(f"{seeds} seeds: use 1 or more, or 0 for all.")
        draw(self, Path(path), kind, seeds)
