"""Read HTML strictly: every element that is opened is closed in order. For tests."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "br", "input", "img", "link", "hr"}


class Document(HTMLParser):
    """The elements of a document: `tags`, `attributes`, the text of scripts by id, and rows of cells."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: dict[str, str] = {}
        self.rows: list[list[str]] = []
        self.text = ""
        self._id = ""
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        self._id = dict(attrs).get("id") or ""
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[self._id] = self.scripts.get(self._id, "") + data
        elif self.open[-1:] != ["style"]:
            self.text += data
            if {"td", "th"} & {*self.open}:
                self.rows[-1][-1] += data

    def data(self, id: str) -> Any:
        return json.loads(self.scripts[id])
