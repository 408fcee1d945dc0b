"""`effsparse study plot`: the figures of the paper from the results of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.study.shared import Folder, check_output
from effsparse_cli.errors import UsageError
from effsparse_cli.report.figure import check_plot
from effsparse_cli.report.studies.figures import FIGURES

EXAMPLES = """\
Examples:
effsparse study plot figure2 --kind accuracy -o figure2.svg
effsparse study plot figure3 --kind compression --seeds 3 -o figure3.pdf
"""

Kind = Annotated[
    str | None,
    o.choice(
        "--kind",
        help="What to plot (by default accuracy, or compression if nothing was trained)",
        panel=o.OUTPUT,
        metavar="KIND",
        choices=FIGURES,
    ),
]
Seeds = Annotated[
    int | None,
    o.number(
        "--seeds",
        help="Number of seeds per method: those that stay connected longest.",
        panel=o.OUTPUT,
        metavar="N",
        example="3",
        default="all",
    ),
]
Output = Annotated[
    Path | None, o.option("--output", "-o", help="A .svg, .png or .pdf file.", panel=o.OUTPUT, metavar="FILE")
]


def plot(folder: Folder, kind: Kind = None, seeds: Seeds = None, output: Output = None) -> None:
    """Plot the results of a study as in the paper."""
    from effsparse_cli.api.studying import read_study

    if output is None:
        raise UsageError("no file to draw to: use -o FILE.svg, .png or .pdf")
    if seeds is not None and seeds < 1:
        raise UsageError(f"--seeds {seeds}: use 1 or more seeds.")
    check_plot(output, "-o")
    check_output(output, folder)
    read_study(folder).plot(output, kind or "", seeds=seeds or 0)
