"""Options that several commands share: where results go and how paths are found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

READ, SHOW, FIND = "How the model is read", "What is shown", "How paths are found"

ENGINES = ("bits", "saturated", "pathnorm")
DEVICES = ("cpu", "cuda", "mps")


def option(*flags: str, help: str, panel: str, metavar: str = "") -> OptionInfo:
    made: OptionInfo = typer.Option(*flags, help=help, metavar=metavar, rich_help_panel=panel, show_default=False)
    return made


def choice(*flags: str, help: str, panel: str, metavar: str, choices: Iterable[str]) -> OptionInfo:
    """A text option with known values, the first of them the default: checked, completed, named in the help."""
    known = list(choices)

    def check(value: str) -> str:
        if value not in known:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}.")
        return value

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    made: OptionInfo = typer.Option(
        *flags,
        help=f"{help}: {', '.join(known)}.",
        metavar=metavar,
        rich_help_panel=panel,
        callback=check,
        autocompletion=complete,
    )
    return made


Model = Annotated[Path, typer.Argument(help="The model's file.", metavar="MODEL", show_default=False)]
Output = Annotated[Path | None, option("--output", "-o", help="Write to this file.", panel=SHOW, metavar="FILE")]
CountEmbeddings = Annotated[bool, option("--count-embeddings", help="Count embedding tables too.", panel=FIND)]
Engine = Annotated[
    str, choice("--engine", help="What finds them; all agree", panel=FIND, metavar="ENGINE", choices=ENGINES)
]
Device = Annotated[
    str,
    choice("--device", help="Where the other engines than bits run", panel=FIND, metavar="DEVICE", choices=DEVICES),
]
