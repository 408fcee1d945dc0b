"""Options that a table or a dataclass declares, in place of one parameter of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import Parameter
from typing import Any, get_type_hints

Command = Callable[..., None]
Options = Mapping[str, tuple[Any, Any]]
"""Annotation and default of each option."""


def find_options(group: Any) -> Options:
    """Return the options that a dataclass declares as its fields."""
    hints = get_type_hints(group, include_extras=True)
    return {each.name: (hints[each.name], each.default) for each in fields(group)}


def replace_parameter(
    command: Command, name: str, options: Options, collect: Callable[[dict[str, Any]], Any], *, last: bool = False
) -> Command:
    """Replace one parameter of a command by options, where it is or after all others. The parameter receives what
    `collect` makes of the values of the options."""
    hints = get_type_hints(command, include_extras=True)
    own = list(inspect.signature(command).parameters.values())
    at = len(own) if last else next(i for i, each in enumerate(own) if each.name == name)
    added = [Parameter(each, Parameter.KEYWORD_ONLY, annotation=a, default=d) for each, (a, d) in options.items()]
    kept = [each.replace(annotation=hints[each.name], kind=Parameter.KEYWORD_ONLY) for each in own]
    signature = [each for each in (*kept[:at], *added, *kept[at:]) if each.name != name]

    def run(**values: Any) -> None:
        collected = collect({each: values.pop(each) for each in options})
        command(**values, **{name: collected})

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in signature} | {"return": None}
    run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return run
