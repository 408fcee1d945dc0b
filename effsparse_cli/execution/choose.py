"""Choose where many tasks run, from what a user asks for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from effsparse_cli.arguments import choose
from effsparse_cli.errors import UsageError

if TYPE_CHECKING:
    from effsparse_cli.execution.engine import Engine

ENGINES = LOCAL, RAY = "local", "ray"


def build_engine(
    name: str, *, address: str = "", jobs: int | None = None, cpus: int = 1, gpus: float = 0, threads: int = 0
) -> Engine:
    """Return an engine by its name. `threads` is the number per local process, 0 for a share of all."""
    choose(name, ENGINES, "--engine")
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
