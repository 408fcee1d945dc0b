"""`effsparse man`: the manual page, made of the same pages as the help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from effsparse_cli.commands.shared.help import HelpPage, build_page
from effsparse_cli.commands.shared.output import emit
from effsparse_cli.version import __version__

EXAMPLES = """\
Examples:
effsparse man > effsparse.1
effsparse man | man -l -
"""

DESCRIPTION = (
    "effsparse measures which of the connections that pruning has kept still lie on a path from an input to an output "
    "of the network, and prunes, repairs and checks models by that number."
)
EXIT_STATUS = {
    "0": "Success.",
    "1": "A check failed, or a target was missed.",
    "2": "Usage error.",
    "3": "A file cannot be read, was refused, or has nothing to measure.",
    "101": "A bug in effsparse.",
}
ENVIRONMENT = {
    "NO_COLOR": "Turns colors off.",
    "EFFSPARSE_DEBUG": "Shows the traceback of a bug.",
}
FLAG = re.compile(r"--?[\w-]+")


def man(ctx: typer.Context) -> None:
    """Print the manual page."""
    assert ctx.parent is not None
    group: Any = ctx.parent.command
    own = build_page(group, ctx.parent)
    emit(render_manual(own, list(_command_pages(group, ctx.parent))), None)


def _command_pages(group: Any, ctx: Any) -> Iterator[HelpPage]:
    """Yield the pages of all commands of a group, those of inner groups in their place."""
    for name in group.list_commands(ctx):
        command = group.commands[name]
        own = type(ctx)(command, ctx, name)
        if hasattr(command, "commands"):
            yield from _command_pages(command, own)
        else:
            yield build_page(command, own)


def render_manual(own: HelpPage, commands: list[HelpPage]) -> str:
    """Return the manual page in roff."""
    lines = [f'.TH EFFSPARSE 1 "" "effsparse {__version__}" "User Commands"', ".SH NAME"]
    lines += [f"effsparse \\- {escape(own.summary[:1].lower() + own.summary[1:].rstrip('.'))}"]
    lines += [".SH SYNOPSIS", f".B {escape(own.usage)}", ".SH DESCRIPTION", escape(DESCRIPTION), ".SH COMMANDS"]
    for page in commands:
        lines += [f'.SS "{escape(page.name)}"', escape(page.summary), ".PP", f".B {escape(page.usage)}"]
        lines += [line for section in page.sections for row in section.rows for line in _row(*row)]
        for paragraph in page.epilog.strip().split("\n\n"):
            title, *examples = paragraph.splitlines()
            lines += [".PP", escape(title), *_literal(examples)]
    lines += [".SH OPTIONS", *(line for row in own.sections[-1].rows for line in _row(*row))]
    for title, rows in (("EXIT STATUS", EXIT_STATUS), ("ENVIRONMENT", ENVIRONMENT)):
        lines += [f'.SH "{title}"', *(line for row in rows.items() for line in _row(*row))]
    return "\n".join(lines) + "\n"


def _row(name: str, text: str) -> list[str]:
    """Return an item of a list: flags in bold, values in italics."""
    flags = FLAG.findall(name) if name.startswith("-") else [name]
    end = max(name.rfind(flag) + len(flag) for flag in flags)
    value = f" \\fI{escape(name[end:].strip())}\\fR" if name[end:].strip() else ""
    return [".TP", f"\\fB{escape(name[:end])}\\fR{value}", escape(text.replace("\xa0", " "))]


def _literal(lines: list[str]) -> list[str]:
    return [".PP", ".nf", *map(escape, lines), ".fi"] if lines else []


def escape(text: str) -> str:
    """Escape text for roff: backslashes, hyphens that are typed as such, and a control character at the start."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe
