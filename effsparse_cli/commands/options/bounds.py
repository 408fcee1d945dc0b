"""Options for the bounds of `effsparse check`: one for each row of `BOUNDS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from effsparse_cli.checks.rules import BOUNDS, Bound
from effsparse_cli.commands.options.common import number, option
from effsparse_cli.commands.options.signature import Command, replace_parameter


def with_bounds(panel: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options to a command. Its parameter `bounds` receives their values by key."""
    options = {key.replace("-", "_"): (_annotation(key, bound, panel), None) for key, bound in BOUNDS.items()}

    def by_key(values: dict[str, Any]) -> dict[str, Any]:
        return {name.replace("_", "-"): value for name, value in values.items()}

    return lambda command: replace_parameter(command, "bounds", options, by_key)


def _annotation(key: str, bound: Bound, panel: str) -> Any:
    if bound.is_number:
        info = number(f"--{key}", help=bound.help, panel=panel, metavar=bound.example, example=bound.example)
        return Annotated[int | None, info]
    return Annotated[str | None, option(f"--{key}", help=bound.help, panel=panel, metavar=bound.example)]
