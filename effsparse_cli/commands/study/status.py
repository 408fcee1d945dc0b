"""`effsparse study status`: how far a study is."""

from __future__ import annotations

from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.commands.shared.output import show
from effsparse_cli.commands.study.shared import Folder, check_output

EXAMPLES = """\
Examples:
effsparse study status figure2
effsparse study status figure2 --format json
"""

Format = Annotated[str, o.format_choice(("table", "json"))]


def status(folder: Folder, format: Format = "table", output: o.Output = None) -> None:
    """Show which tasks of a study are finished, running or failed."""
    from effsparse_cli.api.studying import read_study

    check_output(output, folder)
    show(read_study(folder), format, output)
