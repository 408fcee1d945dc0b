"""What the commands of `effsparse study` share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import execution as e
from effsparse_cli.commands.shared.output import note, show
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.study.folder import is_own_file

if TYPE_CHECKING:
    from effsparse_cli.execution.engine import Engine

Folder = Annotated[Path, typer.Argument(help="Folder of a study.", metavar="DIR", show_default=False)]
Trust = Annotated[bool, o.option("--trust", help="Allow the study file to name code to run.", panel=e.EXECUTE)]


def check_output(output: Path | None, folder: Path) -> None:
    """Refuse an output that would replace a file of the study."""
    check_outputs({"-o": output})
    if output is None:
        return
    if is_own_file(folder, output):
        raise UsageError(f"-o {output} is a file of the study. Choose another file.")


def run_and_show(file: Path, folder: Path | None, engine: Engine, *, retry: bool = False, trust: bool = False) -> None:
    """Run a study, show what is done, and end with exit code 1 if a task has failed."""
    from effsparse_cli.api.studying import run_study

    # A terminal shows progress; a log has a line per task.
    notify = (lambda text: None) if sys.stderr.isatty() else note
    try:
        report = run_study(file, folder=folder, engine=engine, retry=retry, trust=trust, notify=notify)
    except KeyboardInterrupt:
        note("interrupted; run the same command again to resume")
        raise
    show(report, "table", None)
    raise typer.Exit(1 if report.failed else 0)
