"""The capabilities of the terminal, pipe or file that receives a report."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from shutil import get_terminal_size

PIPE_WIDTH = 120


@dataclass(frozen=True)
class Look:
    width: int = 100
    colour: bool = False
    unicode: bool = True

    @property
    def infinite(self) -> str:
        return "∞" if self.unicode else "inf"

    @property
    def ellipsis(self) -> str:
        return "…" if self.unicode else "..."

    @property
    def rule(self) -> str:
        return "─" if self.unicode else "-"


def find_look() -> Look:
    """Return what standard output can display. Pipes have a fixed width and no colours."""
    stdout = getattr(sys.stdout, "rich_proxied_file", sys.stdout)  # while progress is shown
    terminal = stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    unicode = (getattr(stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    return Look(get_terminal_size((PIPE_WIDTH, 24)).columns if terminal else PIPE_WIDTH, colour, unicode)


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Break text into lines. Only words longer than a line are split."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def bullets(notes: Sequence[str], width: int) -> list[str]:
    """Return the lines of a list of notes."""
    return [line for note in notes for line in wrap(f"- {note}", width, indent="  ")]
