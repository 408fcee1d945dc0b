"""`--help-all`, for commands whose `--help` leaves out options."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def _show(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        command: Any = ctx.command
        typer.echo(command.full_help(ctx))
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show this message with all options and exit.", callback=_show, is_eager=True)
]
