"""`effsparse study run`: run the experiments of a study file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.options import execution as e
from effsparse_cli.commands.study.shared import Trust, run_and_show
from effsparse_cli.execution.choose import LOCAL, build_engine

EXAMPLES = """\
Examples:
effsparse study run figure2.toml
effsparse study run figure2.toml --folder results -j 4
effsparse study run figure2.toml --engine ray --address auto

Finished tasks are never repeated: run the same command again after an interruption or a change of the file.

Exit codes: 0 all tasks are finished; 1 a task failed; 2 usage error; 3 the study stopped.
"""

File = Annotated[Path, typer.Argument(help="Study file (TOML).", metavar="FILE", show_default=False)]
Folder = Annotated[
    Path | None,
    o.option("--folder", help="Folder of the study.", panel=o.OUTPUT, metavar="DIR", default="FILE without its suffix"),
]


def run(
    file: File,
    folder: Folder = None,
    jobs: e.Jobs = None,
    cpus: e.Cpus = 1,
    engine: e.EngineName = LOCAL,
    address: e.Address = "",
    gpus: e.Gpus = 0,
    trust: Trust = False,
) -> None:
    """Run the tasks of a study that are not finished."""
    runner = build_engine(engine, address=address, jobs=jobs, cpus=cpus, gpus=gpus, threads=cpus)
    run_and_show(file, folder, runner, trust=trust)
