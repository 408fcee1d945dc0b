"""Options that several commands share, and functions that declare options."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from effsparse_cli.arguments import choose
from effsparse_cli.commands.options.panels import ANALYSIS as ANALYSIS
from effsparse_cli.commands.options.panels import OUTPUT as OUTPUT
from effsparse_cli.commands.options.panels import WRITE as WRITE
from effsparse_cli.errors import UsageError

ENGINES = ("bits", "saturated", "pathnorm")
DEVICES = ("cpu", "cuda", "mps")


def option(
    *flags: str,
    help: str,
    panel: str,
    metavar: str = "",
    default: bool | str = False,
    complete: Callable[[str], list[str]] | None = None,
    parser: Callable[[Any], Any] | None = None,
) -> OptionInfo:
    """Declare an option. `default` is shown in the help: a text, or True for the actual default."""
    info: OptionInfo = typer.Option(
        *flags,
        help=help,
        metavar=metavar,
        rich_help_panel=panel,
        show_default=default,
        autocompletion=complete,
        parser=parser,
    )
    return info


def complete_list(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes the last of several names with commas between them."""
    known = list(names)

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in known if name.startswith(last)]

    return complete


def number(
    *flags: str, help: str, panel: str, metavar: str, example: str, default: bool | str = False, whole: bool = True
) -> OptionInfo:
    """Declare an option that takes an integer, or any number unless `whole`."""

    def parse(value: Any) -> int | float:
        if not isinstance(value, str):  # a default
            return value  # type: ignore[no-any-return]
        try:
            return int(value) if whole else float(value)
        except ValueError:
            kind = "an integer" if whole else "a number"
            raise UsageError(f"{flags[0]} {value}: not {kind}: use {example}") from None

    return option(*flags, help=help, panel=panel, metavar=metavar, default=default, parser=parse)


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
