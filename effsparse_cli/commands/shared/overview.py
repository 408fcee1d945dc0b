"""The help of `effsparse` itself, formatted like Typer's help of each command. Typer's own formatter imports Markdown
and syntax highlighting libraries, which makes a simple list slow."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Overview(TyperGroup):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        from rich.console import Console
        from rich.padding import Padding

        console = Console(highlight=False, emoji=False)
        console.print(Padding(f"[yellow]Usage:[/] {self._usage(ctx)}", 1), style="bold")
        console.print(Padding(self.help or "", (0, 1, 1, 1)))
        options = [param.get_help_record(ctx) for param in self.get_params(ctx)]
        commands = [(name, self.commands[name].help) for name in self.list_commands(ctx)]
        for title, rows in (("Options", options), ("Commands", commands)):
            console.print(_panel(title, rows))
        console.print(Padding(self.epilog or "", 1))

    def _usage(self, ctx: Any) -> str:
        from rich.markup import escape

        return escape(" ".join([ctx.command_path, *self.collect_usage_pieces(ctx)]))


def _panel(title: str, rows: list[Any]) -> Any:
    from rich.panel import Panel
    from rich.table import Table

    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(ratio=1)
    for name, summary in rows:
        table.add_row(name, summary)
    return Panel(table, border_style="dim", title=title, title_align="left")
