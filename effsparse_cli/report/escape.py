"""Escape text that comes from files, so that it cannot move a terminal's cursor, break a table, or run a command of a
CI server or a formula of a spreadsheet.

There is one function per format; the decorator `escaping` applies it to everything that a renderer receives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, TypeVar

Data = TypeVar("Data")
Render = Callable[[Data], str]

SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
COMMAND = re.compile(r"(?:(?<=\s)|^)::|##(?=\[)")
"""Commands of GitHub's and Azure's runners: two colons at the start of a line, or ##[ anywhere."""
FORMULA = ("=", "+", "-", "@")
MARKDOWN = re.compile(r"[\\`*_\[\]<#|~$&]")
LINKS = re.compile(r"\b(?:https?|ftp|www|mailto|xmpp)(?=[:.])", re.IGNORECASE)
MENTION = re.compile(r"(?<![\w`/])@([A-Za-z0-9][A-Za-z0-9-]*)")


def printable(text: str) -> str:
    """Escape for terminals and logs: non-printable characters (control, bidirectional and invisible ones, line breaks)
    and commands of CI servers."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _visible(char) for char in text)
    return COMMAND.sub(lambda match: rf"\x{ord(match[0][0]):02x}{match[0][1:]}", text)


def _visible(char: str) -> str:
    code = ord(char)
    if char in SHORT:
        return SHORT[char]
    return rf"\x{code:02x}" if code < 0x100 else rf"\u{code:04x}" if code < 0x10000 else rf"\U{code:08x}"


def csv_cell(text: str) -> str:
    """Escape for spreadsheets: an apostrophe keeps a cell that starts like a formula from running."""
    safe = printable(text)
    return f"'{safe}" if safe.lstrip().startswith(FORMULA) else safe


def markdown(text: str) -> str:
    """Escape within a line of Markdown: no markup, HTML, links or mentions."""
    safe = MARKDOWN.sub(lambda match: f"\\{match[0]}", printable(text))
    safe = LINKS.sub(lambda match: f"{match[0]}\\", safe)
    return MENTION.sub(r"`@\1`", safe)


def markdown_code(text: str) -> str:
    """Quote as Markdown code. A bar is escaped too, because it would end a table cell even within code."""
    safe = printable(text)
    safe = safe.replace("|", r"\x7c") if r"\|" in safe else safe.replace("|", r"\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", safe)), default=0))
    space = " " if safe.startswith("`") or safe.endswith("`") else ""
    return f"{fence}{space}{safe}{space}{fence}"


def sarif(text: str) -> str:
    """Escape for SARIF messages, in which brackets form links."""
    return re.sub(r"[\\\[\]]", lambda match: f"\\{match[0]}", printable(text))


def github_data(text: str) -> str:
    return printable(text).replace("%", "%25")


def github_property(text: str) -> str:
    return github_data(text).replace(":", "%3A").replace(",", "%2C")


def escaping(escape: Callable[[str], str]) -> Callable[[Render[Data]], Render[Data]]:
    """Decorate a renderer so that all text in its argument is escaped first. Nothing can be forgotten, and widths are
    measured on what is printed."""

    def decorate(render: Render[Data]) -> Render[Data]:
        @wraps(render)
        def render_escaped(data: Data) -> str:
            return render(escaped(data, escape))

        return render_escaped

    return decorate


def escaped(data: Data, escape: Callable[[str], str]) -> Data:
    """Return the same data with every string in it escaped."""
    return _escaped(data, escape)  # type: ignore[no-any-return]


def _escaped(value: Any, escape: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {_escaped(key, escape): _escaped(each, escape) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_escaped(each, escape) for each in value))
    if isinstance(value, tuple | list):
        return type(value)(_escaped(each, escape) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        texts = {each.name: _escaped(getattr(value, each.name), escape) for each in fields(value) if each.init}
        return replace(value, **texts)
    return value
