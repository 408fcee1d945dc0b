"""One file per command: parse, call rooms, print, exit. Only commands join rooms, and import them late."""

from __future__ import annotations

from collections.abc import Callable

from effsparse_cli.commands import report

COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "report": (report.report, report.EXAMPLES),
}
