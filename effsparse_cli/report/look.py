"""The capabilities of the terminal, pipe or file that receives a report."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


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


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Break text into lines without splitting words."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def bullets(notes: tuple[str, ...] | list[str], width: int) -> list[str]:
    """Return the lines of a list of notes."""
    return [line for note in notes for line in wrap(f"- {note}", width, indent="  ")]
