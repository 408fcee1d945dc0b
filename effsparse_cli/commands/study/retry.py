"""`effsparse study retry`: run the tasks of a study that failed."""

from __future__ import annotations

from effsparse_cli.commands.options import execution as e
from effsparse_cli.commands.study.shared import Folder, Trust, run_and_show
from effsparse_cli.execution.choose import LOCAL, build_engine

EXAMPLES = """\
Examples:
effsparse study retry figure2
effsparse study retry figure2 -j 1
"""


def retry(
    folder: Folder,
    jobs: e.Jobs = None,
    cpus: e.Cpus = 1,
    engine: e.EngineName = LOCAL,
    address: e.Address = "",
    gpus: e.Gpus = 0,
    trust: Trust = False,
) -> None:
    """Run the failed tasks of a study again."""
    from effsparse_cli.errors import LoadError

    runner = build_engine(engine, address=address, jobs=jobs, cpus=cpus, gpus=gpus, threads=cpus)
    if not (folder / "study.json").exists():
        raise LoadError(f"{folder} is not the folder of a study: it has no study.json. effsparse study run makes one.")
    run_and_show(folder / "study.toml", folder, runner, retry=True, trust=trust)
