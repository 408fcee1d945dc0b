"""Messages about a wrong command line, in the words of the other errors."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from effsparse_cli.commands import COMMANDS, GROUPS, list_commands
from effsparse_cli.errors import EffsparseError

EXTRA = re.compile(r"Got unexpected extra argument\S* \((.*)\)")


def check_command(arguments: Sequence[str]) -> None:
    """Raise an error with a suggestion if the first argument is not a command."""
    if not arguments or arguments[0].startswith("-"):
        return
    known: Mapping[str, str] = COMMANDS
    if arguments[0] in GROUPS and len(arguments) > 1 and not arguments[1].startswith("-"):
        known, arguments = GROUPS[arguments[0]], arguments[1:]
    if arguments[0] in known:
        return
    from effsparse_cli.arguments import choose
    from effsparse_cli.errors import UsageError

    meant = choose(arguments[0], known, "command")
    raise UsageError(f"command {arguments[0]}: unknown; did you mean {meant}?")


def usage_message(error: Any, arguments: Sequence[str]) -> str:
    """Return what is wrong with the options, and where their help is. `error` is one of Click's."""
    known = {*COMMANDS, *list_commands()}
    named = next((words for n in (2, 1) if " ".join(words := arguments[:n]) in known), [])
    path = " ".join(["effsparse", *named])
    message = _translated(error)
    return f"{message}{'' if message.endswith('?') else '.'} See {path} --help"


def _translated(error: Any) -> str:
    kind, option = type(error).__name__, getattr(error, "option_name", "")
    if kind == "NoSuchOption":
        close = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
        return f"{option}: unknown option{close}"
    if kind == "MissingParameter":
        return f"no {(error.param.metavar or error.param.name).removesuffix('...')} given"
    message = str(error.format_message()).rstrip(".")
    if kind == "BadOptionUsage":
        return f"{option}: {'a value is missing' if 'requires an argument' in message else 'takes no value'}"
    if extra := EXTRA.fullmatch(message):
        return f"{extra[1]}: unexpected argument"
    return f"{message[:1].lower()}{message[1:]}"


def with_command(error: EffsparseError, arguments: Sequence[str]) -> str:
    """If input shapes are missing, replace the suggested options by the whole command line with these options."""
    if not error.input_shapes:
        return str(error)
    from effsparse_cli.formats.missing_shapes import shape_options

    options = shape_options(error.input_shapes)
    return str(error).replace(options, shlex.join(["effsparse", *_without_shapes(arguments), *shlex.split(options)]))


def _without_shapes(arguments: Sequence[str]) -> list[str]:
    left, skip = [], False
    for argument in arguments:
        if not skip and argument != "--input-shape" and not argument.startswith("--input-shape="):
            left.append(argument)
        skip = not skip and argument == "--input-shape"
    return left
