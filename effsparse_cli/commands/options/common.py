"""Options that several commands share, and functions that declare options."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

from effsparse_cli.arguments import choose

LOAD, ANALYSIS, OUTPUT, WRITE = "Loading", "Analysis", "Output", "Writing"

ENGINES = ("bits", "saturated", "pathnorm")
DEVICES = ("cpu", "cuda", "mps")


def option(*flags: str, help: str, panel: str, metavar: str = "", default: bool | str = False) -> OptionInfo:
    """Declare an option. `default` is shown in the help: a text, or True for the actual default."""
    info: OptionInfo = typer.Option(*flags, help=help, metavar=metavar, rich_help_panel=panel, show_default=default)
    return info


def choice(*flags: str, help: str, panel: str, metavar: str, choices: Iterable[str]) -> OptionInfo:
    """Declare an option with a fixed set of values, which are checked, completed, and listed in the help."""
    known = list(choices)

    def check(value: str | None) -> str | None:
        return value if value is None else choose(value, known, flags[0])

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    info: OptionInfo = typer.Option(
        *flags,
        help=f"{help}: {', '.join(known)}.",
        metavar=metavar,
        rich_help_panel=panel,
        callback=check,
        autocompletion=complete,
    )
    return info


def format_choice(formats: Iterable[str]) -> OptionInfo:
    return choice("--format", "-f", help="Output format", panel=OUTPUT, metavar="FORMAT", choices=formats)


def device_choice(help: str) -> OptionInfo:
    return choice("--device", help=help, panel=ANALYSIS, metavar="DEVICE", choices=DEVICES)


Model = Annotated[Path, typer.Argument(help="Model file.", metavar="MODEL", show_default=False)]
ProjectModel = Annotated[
    Path | None, typer.Argument(help="Model file.", metavar="MODEL", show_default="model in the project file")
]
Output = Annotated[
    Path | None, option("--output", "-o", help="Output file.", panel=OUTPUT, metavar="FILE", default="standard output")
]
Plot = Annotated[
    Path | None, option("--plot", help="Draw a plot to a .svg, .png or .pdf file.", panel=OUTPUT, metavar="FILE")
]
CountEmbeddings = Annotated[
    bool, option("--count-embeddings", help="Count the weights of embedding tables.", panel=ANALYSIS)
]
Engine = Annotated[
    str, choice("--engine", help="Engine (all give the same result)", panel=ANALYSIS, metavar="ENGINE", choices=ENGINES)
]
EngineDevice = Annotated[str, device_choice("Device for the `saturated` and `pathnorm` engines")]
Device = Annotated[str, device_choice("Device for scores and paths")]
