"""Names from files are data: what each format shows of them can neither move the cursor of a terminal, nor break a
table, nor run a command of a CI server or a spreadsheet. One function per format; `escaping` applies it to everything
that a renderer is given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, TypeVar

Given = TypeVar("Given")
Render = Callable[[Given], str]

SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
COMMAND = re.compile(r"(?:(?<=\s)|^)::|##(?=\[)")
"""What GitHub's and Azure's runners take for a command: two colons at the start of a line, or ##[ anywhere."""
FORMULA = ("=", "+", "-", "@")
MARKDOWN = re.compile(r"[\\`*_\[\]<#|~$&]")
LINKS = re.compile(r"\b(?:https?|ftp|www|mailto|xmpp)(?=[:.])", re.IGNORECASE)
MENTION = re.compile(r"(?<![\w`/])@([A-Za-z0-9][A-Za-z0-9-]*)")


def plain(text: str) -> str:
    """For terminals and logs: characters that are not printable (control, bidirectional, invisible ones, line breaks)
    as escapes, and no commands of CI servers."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _visible(char) for char in text)
    return COMMAND.sub(lambda found: rf"\x{ord(found[0][0]):02x}{found[0][1:]}", text)


def _visible(char: str) -> str:
    code = ord(char)
    if char in SHORT:
        return SHORT[char]
    return rf"\x{code:02x}" if code < 0x100 else rf"\u{code:04x}" if code < 0x10000 else rf"\U{code:08x}"


def csv_cell(text: str) -> str:
    """A spreadsheet runs a cell that begins like a formula; an apostrophe before it makes it text."""
    shown = plain(text)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA) else shown


def markdown(text: str) -> str:
    """Within a line of Markdown: no markup, HTML, links or mentions."""
    shown = MARKDOWN.sub(lambda found: f"\\{found[0]}", plain(text))
    shown = LINKS.sub(lambda found: f"{found[0]}\\", shown)
    return MENTION.sub(r"`@\1`", shown)


def markdown_code(text: str) -> str:
    """As code, also in a cell of a table, where a bar would end the cell even within code."""
    shown = plain(text)
    shown = shown.replace("|", r"\x7c") if r"\|" in shown else shown.replace("|", r"\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def sarif(text: str) -> str:
    """In a message of SARIF brackets make links."""
    return re.sub(r"[\\\[\]]", lambda found: f"\\{found[0]}", plain(text))


def github_data(text: str) -> str:
    return plain(text).replace("%", "%25")


def github_property(text: str) -> str:
    return github_data(text).replace(":", "%3A").replace(",", "%2C")


def json_text(document: object) -> str:
    """JSON that keeps every name as it is, with all characters that are not printable as escapes of JSON's own."""

    def shown(char: str) -> str:
        return char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1]

    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return "".join(map(shown, text)).replace("##[", r"#\u0023[") + "\n"


def escaping(how: Callable[[str], str]) -> Callable[[Render[Given]], Render[Given]]:
    """A renderer whose data is escaped before it sees it: nothing can be forgotten, and widths are those of what is
    shown."""

    def decorate(render: Render[Given]) -> Render[Given]:
        @wraps(render)
        def rendered(given: Given) -> str:
            return render(escaped(given, how))

        return rendered

    return decorate


def escaped(value: Given, how: Callable[[str], str]) -> Given:
    """The same data with every text in it escaped."""
    return _escaped(value, how)  # type: ignore[no-any-return]


def _escaped(value: Any, how: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return how(value)
    if isinstance(value, Mapping):
        return {_escaped(key, how): _escaped(each, how) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_escaped(each, how) for each in value))
    if isinstance(value, tuple | list):
        return type(value)(_escaped(each, how) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        texts = {each.name: _escaped(getattr(value, each.name), how) for each in fields(value) if each.init}
        return replace(value, **texts)
    return value
