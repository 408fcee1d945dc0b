"""Options for where many tasks run, shared by `check` and `study`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.errors import UsageError

if TYPE_CHECKING:
    from effsparse_cli.execution.engine import Engine

EXECUTE = "Execution"
LOCAL, RAY = "local", "ray"

Jobs = Annotated[
    int | None,
    o.number(
        "--jobs", "-j", help="Number of processes.", panel=EXECUTE, metavar="N", example="4", default="number of cores"
    ),
]
EngineName = Annotated[
    str,
    o.choice("--engine", help="Where tasks run", panel=EXECUTE, metavar="ENGINE", choices=(LOCAL, RAY)),
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


def build_engine(
    name: str, address: str, jobs: int | None, *, cpus: int = 1, gpus: float = 0, threads: int = 0
) -> Engine:
    """Return the engine that the options ask for. `threads` is the number per local process, 0 for a share of all."""
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: use at least one process.")
    if cpus < 1:
        raise UsageError(f"--cpus {cpus}: use at least one CPU.")
    if not 0 <= gpus < float("inf"):
        raise UsageError(f"--gpus {gpus}: use 0 or more GPUs.")
    if name == RAY:
        from effsparse_cli.execution.cluster import RayEngine, import_ray

        if jobs is not None:
            raise UsageError("--jobs is for local processes: Ray runs as many tasks as its CPUs allow (--cpus).")
        import_ray()
        return RayEngine(address, cpus, gpus)
    if address or gpus:
        raise UsageError(f"{'--address' if address else '--gpus'} is for --engine ray.")
    from effsparse_cli.execution.local import LocalEngine

    return LocalEngine(jobs or max(1, (os.cpu_count() or 1) // cpus), threads)
