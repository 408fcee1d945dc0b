"""HTML pages of commands: the option that opens them, and where they cannot be written."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from effsparse_cli.commands.options import common as o
from effsparse_cli.errors import UsageError

Open = Annotated[bool, o.option("--open", help="Open the HTML page in a web browser.", panel=o.OUTPUT)]


def check_page(format: str, output: Path | None, options: Mapping[str, bool]) -> None:
    """Check the options of HTML pages before any work is done; `options` are those that other formats do not have."""
    given = [option for option, value in options.items() if value]
    if given and format != "html":
        raise UsageError(f"{given[0]} is for web pages: add --format html.")
    if options.get("--open") and output is None:
        raise UsageError("--open needs a file: add -o FILE.html.")
    if format == "html" and output is None and sys.stdout.isatty():
        raise UsageError("--format html: the page is too long for a terminal: add -o FILE.html.")


def open_page(output: Path | None) -> None:
    if output is not None:
        webbrowser.open(output.resolve().as_uri())
