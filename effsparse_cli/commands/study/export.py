"""`effsparse study export`: the results of a study as one table."""

from __future__ import annotations

from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.shared.output import show
from effsparse_cli.commands.study.shared import Folder, check_output
from effsparse_cli.errors import UsageError

EXAMPLES = """\
Examples:
effsparse study export figure2 -o figure2.csv
effsparse study export figure2 -o figure2.parquet
effsparse study export figure2 --format json
"""

CSV, JSON, PARQUET = FORMATS = ("csv", "json", "parquet")
Format = Annotated[
    str | None,
    o.choice(
        "--format",
        "-f",
        help="Output format, by default that of -o or csv",
        panel=o.OUTPUT,
        metavar="FORMAT",
        choices=FORMATS,
    ),
]


def export(folder: Folder, format: Format = None, output: o.Output = None) -> None:
    """Export one row per task: CSV, JSON or Parquet."""
    from effsparse_cli.api.studying import read_study

    check_output(output, folder)
    suffix = output.suffix.lower().removeprefix(".") if output is not None else ""
    if format is None and suffix and suffix not in FORMATS:
        raise UsageError(f"-o {output}: no format has this suffix: use .csv, .json or .parquet, or add --format.")
    format = format or suffix or CSV
    if format == PARQUET and output is None:
        raise UsageError("--format parquet is not text: write it to a file, with -o FILE.parquet")
    report = read_study(folder)
    if format == PARQUET and output is not None:
        report.write_parquet(output)
    else:
        show(report, format, output)
