"""One file per command: parse, call rooms, print, exit. Only commands join rooms, and import them late."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

COMMANDS = ("report", "check", "diff", "prune", "repair", "compact", "quotas", "curve")
"""In the order in which the help lists them; each is a module here with a function of its name and EXAMPLES."""


def find_command(name: str) -> tuple[Callable[..., None], str]:
    """The command's function, and what stands below its help."""
    module = import_module(f"effsparse_cli.commands.{name}")
    return getattr(module, name), module.EXAMPLES
