"""`effsparse study init`: the study file of a figure of the paper."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.shared.output import emit, note
from effsparse_cli.errors import UsageError
from effsparse_cli.formats.writing.atomic import check_outputs
from effsparse_cli.study.paper import DATA, FIGURES, FULL, SCALES

EXAMPLES = """\
Examples:
effsparse study init figure2 --scale small --data data/mnist
effsparse study init figure8 --model lenet-5 --compact-training -o quotas.toml
"""

Figure = Annotated[
    str, typer.Argument(help=f"Figure of the paper: {', '.join(FIGURES)}.", metavar="FIGURE", show_default=False)
]
Model = Annotated[
    str | None,
    o.choice("--model", help="Model of the figure", panel="Study", metavar="MODEL", choices=DATA),
]
Scale = Annotated[str, o.choice("--scale", help="Size of the study", panel="Study", metavar="SCALE", choices=SCALES)]
Data = Annotated[
    str,
    o.option(
        "--data",
        help="Where the data is, relative to the study file.",
        panel="Study",
        metavar="PATH",
        default="data/ and the name of the data set",
    ),
]
Compact = Annotated[
    bool,
    o.option("--compact-training", help="Train networks without their dead channels, which is faster.", panel="Study"),
]
Output = Annotated[
    Path | None, o.option("--output", "-o", help="Study file.", panel=o.OUTPUT, metavar="FILE", default="FIGURE.toml")
]


def init(
    figure: Figure,
    model: Model = None,
    scale: Scale = FULL,
    data: Data = "",
    compact_training: Compact = False,
    output: Output = None,
) -> None:
    """Write the study file of a figure of the paper."""
    from effsparse_cli.study.paper import write_paper_study

    path = output or Path(f"{figure.lower()}.toml")
    if path.is_dir():
        raise UsageError(f"-o {path} is a folder. Use a file, as in -o {path / 'figure2.toml'}.")
    text = write_paper_study(figure, model=model or "", scale=scale, path=data, file=path, compact=compact_training)
    if path.exists():
        raise UsageError(f"{path} exists. Choose another file with -o FILE, or delete it first.")
    check_outputs({"-o": path})
    emit(text, path)
    note(f"{path} written. Run it with: effsparse study run {shlex.quote(str(path))}")
