"""The help of `effsparse` and of its commands: a page of sections, built from the declared options, as text for any
width. The manual page is made of the same pages. Typer's own help imports Markdown and syntax highlighting libraries,
draws boxes, and shows Python types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from typer.core import TyperCommand, TyperGroup

from effsparse_cli.commands import COMMANDS
from effsparse_cli.commands.options.panels import ARGUMENTS, MORE, OPTIONS
from effsparse_cli.report.look import find_look

MAX_WIDTH = 100
MIN_HELP_WIDTH = 24
INDENT, GAP, UNBROKEN = "  ", 2, "\xa0"
BOLD, CYAN, END = "\x1b[1m", "\x1b[1;36m", "\x1b[0m"


@dataclass(frozen=True)
class Section:
    """Rows of a name and its help. `more` says where the rest is."""

    title: str
    rows: tuple[tuple[str, str], ...]
    more: str = ""


@dataclass(frozen=True)
class HelpPage:
    """`epilog` has paragraphs of a title and its lines."""

    name: str
    usage: str
    summary: str
    sections: tuple[Section, ...]
    epilog: str


class Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(render(build_page(self, ctx, everything=False)))

    def full_help(self, ctx: Any) -> str:
        """Return what `--help-all` shows."""
        return render(build_page(self, ctx)).rstrip("\n")


class Group(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """Return names in the order of the table; Typer lists groups last."""
        order = {name: i for i, name in enumerate(COMMANDS)}
        return sorted(super().list_commands(ctx), key=lambda name: order.get(name, 0))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(render(build_page(self, ctx)))


def build_page(command: Any, ctx: Any, everything: bool = True) -> HelpPage:
    """Return the page of a command, with or without the options that `--help` leaves out."""
    rows: dict[str, list[tuple[str, str]]] = {ARGUMENTS: []}
    hidden: dict[str, int] = {}
    usage = [ctx.command_path, "[OPTIONS]"]
    for parameter in command.get_params(ctx):
        argument = parameter.param_type_name == "argument"
        if argument:
            usage.append(parameter.metavar if parameter.required else f"[{parameter.metavar}]")
        panel = getattr(parameter, "rich_help_panel", None) or (ARGUMENTS if argument else OPTIONS)
        if panel in MORE and not everything:
            hidden[MORE[panel]] = hidden.get(MORE[panel], 0) + 1
        elif not parameter.hidden:
            rows.setdefault(MORE.get(panel, panel), []).append((_names(parameter), _help(parameter)))
    if isinstance(command, TyperGroup):
        usage.append("COMMAND ...")
        rows = {"Commands": [(name, command.commands[name].help or "") for name in command.list_commands(ctx)]} | rows
    last = rows.pop(OPTIONS, [])  # --help and its kin, which every command has
    sections = [
        Section(title, tuple(each), f"{hidden[title]} more: {ctx.command_path} --help-all" if title in hidden else "")
        for title, each in (*rows.items(), (OPTIONS, last))
        if each
    ]
    return HelpPage(
        name=ctx.command_path,
        usage=" ".join(usage),
        summary=" ".join((command.help or "").split()),
        sections=tuple(sections),
        epilog=command.epilog or "",
    )


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar)
    flags = ", ".join(sorted(parameter.opts, key=len))
    off = f"/{parameter.secondary_opts[0]}" if parameter.secondary_opts else ""
    return f"{flags}{off}{'' if parameter.is_flag or not parameter.metavar else f' {parameter.metavar}'}"


def _help(parameter: Any) -> str:
    text, shown = parameter.help or "", getattr(parameter, "show_default", False)
    default = shown if isinstance(shown, str) else parameter.default if shown else None
    return text if default is None or default is False or default == "" else f"{text} [default:{UNBROKEN}{default}]"


def render(page: HelpPage) -> str:
    width, colour = min(get_terminal_size((80, 24)).columns, MAX_WIDTH), find_look().colour
    heading = f"{BOLD}{{}}{END}" if colour else "{}"
    lines = [*wrap(page.summary, width), "", *_wrapped(f"{heading.format('Usage:')} {page.usage}", width, "")]
    for section in page.sections:
        lines += ["", heading.format(f"{section.title}:"), *_rows(section.rows, width, colour)]
        lines += [f"{INDENT}{section.more}"] if section.more else []
    for paragraph in page.epilog.strip().split("\n\n"):
        title, *rest = paragraph.splitlines()
        lines += ["", *([heading.format(title)] if rest else wrap(title, width))]
        lines += [line for each in rest for line in _wrapped(each.strip(), width, INDENT)]
    return "\n".join(lines) + "\n"


def _rows(rows: tuple[tuple[str, str], ...], width: int, colour: bool) -> list[str]:
    """Return names and help in two columns. A name too long for its column has its help below it."""
    limit = max(width * 2 // 5 - len(INDENT) - GAP, 0)
    left = max([len(name) for name, _ in rows if len(name) <= limit], default=0)
    indent = len(INDENT) + left + GAP
    lines = []
    for name, text in rows:
        helped = [
            line.replace(UNBROKEN, " ")
            for line in wrap(text, max(width - indent, MIN_HELP_WIDTH), break_on_hyphens=False)
        ]
        shown = f"{CYAN}{name}{END}" if colour else name
        if len(name) <= left and helped:
            lines.append(f"{INDENT}{shown}{' ' * (left - len(name) + GAP)}{helped.pop(0)}")
        else:
            lines.append(f"{INDENT}{shown}")
        lines += [f"{' ' * indent}{line}" for line in helped]
    return lines


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    """Break a line of the epilog. A broken command line can be pasted as it is, with each option beside its value."""
    end = " \\" if text.startswith("effsparse ") else ""
    words = re.findall(r"-\S+ [^-]\S*|\S+", text)
    lines = [indent]
    for word in words:
        longer = f"{lines[-1]}{' ' if lines[-1].strip() else ''}{word}"
        if len(longer) > width - len(end) and lines[-1].strip():
            lines.append(f"{indent}    {word}")
        else:
            lines[-1] = longer
    return [f"{line}{end}" for line in lines[:-1]] + lines[-1:]
