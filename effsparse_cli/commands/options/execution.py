"""Options for where many tasks run, shared by `check` and `study`."""

from __future__ import annotations

from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.execution.choose import ENGINES

EXECUTE = "Execution"

Jobs = Annotated[
    int | None,
    o.number(
        "--jobs", "-j", help="Number of processes.", panel=EXECUTE, metavar="N", example="4", default="number of cores"
    ),
]
EngineName = Annotated[
    str,
    o.choice("--engine", help="Where tasks run", panel=EXECUTE, metavar="ENGINE", choices=ENGINES),
]
Address = Annotated[
    str,
    o.option(
        "--address",
        help="Address of a Ray cluster.",
        panel=EXECUTE,
        metavar="HOST:PORT|auto",
        default="a new one on this machine",
    ),
]
Cpus = Annotated[int, o.number("--cpus", help="CPUs per task.", panel=EXECUTE, metavar="N", example="1", default=True)]
Gpus = Annotated[
    float,
    o.number("--gpus", help="GPUs per task on Ray.", panel=EXECUTE, metavar="N", example="0.5", whole=False),
]
