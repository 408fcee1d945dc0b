"""docs/commands.md equals what the commands say about their options. UPDATE_DOCS=1 writes it anew."""

from __future__ import annotations

import os
import re
from itertools import groupby
from typing import Any

import typer

from effsparse_cli.cli import build_app
from effsparse_cli.commands import COMMANDS, GROUPS, list_commands
from effsparse_cli.commands.options.panels import MORE
from tests.pages import ROOT

PAGE = ROOT / "docs" / "commands.md"
INTRODUCTION = """\
# Command reference

Generated from the commands. `effsparse COMMAND --help` shows the same in a terminal, or `--help-all` where there are
more options. Sparsities are shares, as `0.99` or `99%`; compressions are ratios, as `100` or `100x`. Results go to
standard output, progress and errors to standard error.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | a check failed, or a target is out of reach |
| 2 | usage error |
| 3 | a file cannot be read, was refused, or has nothing to measure |
| 101 | internal error |
| 130 | interrupted |
"""


def render_reference() -> str:
    app: Any = typer.main.get_command(build_app(list_commands()))
    return "\n".join([INTRODUCTION, *(render_entry(name, app.commands[name]) for name in COMMANDS)])


def render_entry(name: str, command: Any) -> str:
    if name not in GROUPS:
        return render_command(name, command)
    inner = (render_command(f"{name} {each}", command.commands[each]) for each in GROUPS[name])
    return "\n".join([f"## {name}\n\n{COMMANDS[name]}\n", *(text.replace("## ", "### ", 1) for text in inner)])


def render_command(name: str, command: Any) -> str:
    epilog = re.sub(r"\[/?\w+\]", "", command.epilog or "")
    examples = [line for line in epilog.splitlines() if line.startswith("effsparse")]
    text = f"## {name}\n\n{list_commands()[name]}\n\n<!-- not run -->\n```sh\n" + "\n".join(examples) + "\n```\n"
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if not each.opts[0].startswith("-")]
    options = [each for each in shown if each.opts[0].startswith("-")]
    rows = [f"| `{each.metavar or each.name.upper()}` | {describe(each)} |" for each in arguments]
    text += "\n| argument | meaning |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    for panel, group in groupby(sorted(options, key=panel_order(options)), key=panel_of):
        rows = [f"| {spell(each)} | {describe(each)} |" for each in group]
        text += f"\n| {panel.lower()} | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    return text


def panel_of(option: Any) -> str:
    panel = getattr(option, "rich_help_panel", None)
    return MORE.get(panel, panel) if panel else "Other options"


def panel_order(options: list[Any]) -> Any:
    order = list(dict.fromkeys(map(panel_of, options)))
    return lambda option: order.index(panel_of(option))


def spell(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = str(option.metavar or "").strip()
    return f"{names} `{value}`".replace("|", "\\|") if value else names


def describe(parameter: Any) -> str:
    text = re.sub(r"\[/?[\w ]+\]", "", parameter.help or "").replace("|", "\\|").replace("*", "\\*")
    default = parameter.show_default
    if default is True:
        default = parameter.default
    return f"{text} Default: {default}." if default not in (None, False, "") else text


def test_reference_is_up_to_date() -> None:
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(render_reference(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == render_reference()


def test_every_option_is_described() -> None:
    rows = re.findall(r"^\| `--[^|]*\|([^|]*)\|$", render_reference(), re.MULTILINE)
    assert len(rows) > 100
    assert all(row.strip() for row in rows)
